import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.streaming.runtime.partitioner.ForwardPartitioner;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;

/**
 * Moves the records of a case from a source to a sink and reports what each of them has seen.
 *
 * <p>Arguments: case, least and most seconds of warm-up, measured seconds, directory of the reports.
 * The case {@code keyby} has two sources and two sinks, any other one of each, in slots of their own.
 */
public final class ExchangeJob {
    /** How long a source goes on after its window: a sink's may begin and end later. */
    private static final long OVERTIME_NS = 1_000_000_000L;

    /** How often a sink looks at the clock while it takes a block of records. */
    private static final int LOOKS_PER_BLOCK = 8;

    private ExchangeJob() {}

    public static void main(String[] arguments) throws Exception {
        Records<?> records = Records.named(arguments[0]);
        boolean keyed = arguments[0].equals("keyby");
        Plan plan =
                new Plan(
                        new WarmUp.Limits(
                                nanoseconds(arguments[1]),
                                nanoseconds(arguments[2]),
                                keyed ? 4 : 2,
                                arguments[4]),
                        nanoseconds(arguments[3]),
                        keyed);
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.getExecutionEnvironment();
        environment.getConfig().enableObjectReuse();
        environment.disableOperatorChaining();
        build(environment, records, plan, keyed);
        environment.execute(arguments[0]);
    }

    private static long nanoseconds(String seconds) {
        return (long) (Double.parseDouble(seconds) * 1e9);
    }

    private static <T> void build(
            StreamExecutionEnvironment environment, Records<T> records, Plan plan, boolean keyed)
            throws Exception {
        int parallelism = keyed ? 2 : 1;
        environment.setParallelism(parallelism);
        DataStream<T> sent =
                environment
                        .addSource(new Source<>(records, plan), "source", records.type())
                        .slotSharingGroup(keyed ? "both" : "source");
        StreamPartitioner<T> partitioner =
                keyed
                        ? new KeyGroupStreamPartitioner<>(records.key(), 128)
                        : new ForwardPartitioner<>();
        new DataStream<>(
                        environment,
                        new PartitionTransformation<>(sent.getTransformation(), partitioner))
                .addSink(new Sink<>(records, plan))
                .name("sink")
                .slotSharingGroup(keyed ? "both" : "sink");
    }

    /** When the window begins, how long it is, and how much is checked field by field. */
    private static final class Plan implements Serializable {
        private static final long serialVersionUID = 1;

        final WarmUp.Limits warmUp;
        final long windowNs;
        final boolean checkAll;

        Plan(WarmUp.Limits warmUp, long windowNs, boolean checkAll) {
            this.warmUp = warmUp;
            this.windowNs = windowNs;
            this.checkAll = checkAll;
        }
    }

    /** Notes, at both ends of the window, the time, the records so far and the CPU time used. */
    private static final class Clock {
        private final OperatingSystemMXBean process =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private final Plan plan;
        private final String name;
        private final WarmUp warmUp;
        private final long started = System.nanoTime();
        private long[] begin;
        private long[] end;

        Clock(Plan plan, String name) {
            this.plan = plan;
            this.name = name;
            this.warmUp = new WarmUp(plan.warmUp, name);
        }

        /** Returns whether the window has ended, and the time that a source adds has passed. */
        boolean look(long records) {
            long now = System.nanoTime();
            if (begin == null) {
                if (warmUp.isOver(now - started)) {
                    begin = mark(records);
                }
            } else if (end == null) {
                if (now - begin[0] >= plan.windowNs) {
                    end = mark(records);
                }
            } else {
                return now - end[0] >= OVERTIME_NS;
            }
            return false;
        }

        private long[] mark(long records) {
            return new long[] {System.nanoTime(), records, process.getProcessCpuTime()};
        }

        void report(long records, long weight, long fingerprint) throws IOException {
            if (begin == null) {
                throw new IllegalStateException(name + " ended before its window began");
            }
            if (end == null) {
                end = mark(records); // a sink that was late: its window ends with its records
            }
            String text =
                    String.format(
                            Locale.ROOT,
                            "{\"records\": %d, \"weight\": %d, \"fingerprint\": %d,"
                                    + " \"window_records\": %d, \"window_s\": %.9f,"
                                    + " \"window_cpu_s\": %.9f, \"warm_up_s\": %.1f}",
                            records,
                            weight,
                            fingerprint,
                            end[1] - begin[1],
                            (end[0] - begin[0]) / 1e9,
                            (end[2] - begin[2]) / 1e9,
                            (begin[0] - started) / 1e9);
            Files.writeString(Path.of(plan.warmUp.directory, name + ".json"), text);
        }
    }

    /** Emits the block over and over; the lock is taken once a block, not once a record. */
    private static final class Source<T> extends RichParallelSourceFunction<T> {
        private static final long serialVersionUID = 1;

        private final Records<T> records;
        private final Plan plan;

        Source(Records<T> records, Plan plan) {
            this.records = records;
            this.plan = plan;
        }

        @Override
        public void run(SourceContext<T> context) throws IOException {
            T[] block = records.makeBlock();
            long weight = 0;
            long fingerprint = 0;
            for (T record : block) {
                weight += records.weigh(record);
                fingerprint += records.fingerprint(record);
            }
            long blocks = 0;
            int index = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            Clock clock = new Clock(plan, "source-" + index);
            do {
                synchronized (context.getCheckpointLock()) {
                    for (T record : block) {
                        context.collect(record);
                    }
                }
                blocks++;
            } while (!clock.look(blocks * block.length));
            clock.report(
                    blocks * block.length,
                    blocks * weight,
                    (plan.checkAll ? blocks : 1) * fingerprint);
        }

        @Override
        public void cancel() {
            throw new UnsupportedOperationException("a run is not cancelled, it is killed");
        }
    }

    /** Counts the records and adds up one field of each; all fields of those that are checked. */
    private static final class Sink<T> extends RichSinkFunction<T> {
        private static final long serialVersionUID = 1;

        private final Records<T> records;
        private final Plan plan;
        private transient Clock clock;
        private transient long checked;
        private transient int stride;
        private transient long count;
        private transient long weight;
        private transient long fingerprint;

        Sink(Records<T> records, Plan plan) {
            this.records = records;
            this.plan = plan;
        }

        @Override
        public void open(OpenContext context) {
            int block = records.makeBlock().length;
            checked = plan.checkAll ? Long.MAX_VALUE : block;
            stride = Math.max(1, block / LOOKS_PER_BLOCK);
        }

        @Override
        public void invoke(T record, Context context) {
            if (count % stride == 0) {
                if (clock == null) {
                    int index = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
                    clock = new Clock(plan, "sink-" + index);
                }
                clock.look(count);
            }
            if (count < checked) {
                fingerprint += records.fingerprint(record);
            }
            weight += records.weigh(record);
            count++;
        }

        @Override
        public void finish() throws IOException {
            clock.report(count, weight, fingerprint);
        }
    }
}
