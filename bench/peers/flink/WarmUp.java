import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Finds out when no JVM of the job compiles any longer: what is measured before that is not Flink.
 *
 * <p>How long it takes depends on the machine, because the compiler's threads share a CPU with what
 * they compile: on a busy one 14 to 26 s were seen after the first record. Each subtask watches
 * the compiler of its own JVM, says with an empty file in the directory of the reports that it
 * rests, and is warm when all subtasks have said so. What is compiled again later is part of the
 * measurement.
 */
final class WarmUp {
    /** A compiler that took less than this share of one CPU, for so long, rests. */
    private static final double REST_SHARE_MAX = 0.05;

    private static final long REST_NS = 3_000_000_000L;
    private static final long LOOK_EVERY_NS = 250_000_000L;
    private static final String SUFFIX = ".warm";

    private final CompilationMXBean compiler = ManagementFactory.getCompilationMXBean();
    private final Limits limits;
    private final String subtask;
    private long next;
    private long restingSince;
    private long compiledBefore;
    private boolean said;

    WarmUp(Limits limits, String subtask) {
        this.limits = limits;
        this.subtask = subtask;
        this.compiledBefore = compiler.getTotalCompilationTime();
    }

    /** The least and the most that it takes, in nanoseconds, and who takes part. */
    static final class Limits implements Serializable {
        private static final long serialVersionUID = 1;

        final long leastNs;
        final long mostNs;
        final int subtasks;
        final String directory;

        Limits(long leastNs, long mostNs, int subtasks, String directory) {
            this.leastNs = leastNs;
            this.mostNs = mostNs;
            this.subtasks = subtasks;
            this.directory = directory;
        }
    }

    /** Returns whether all subtasks are warm, {@code age} nanoseconds after the first record. */
    boolean isOver(long age) {
        if (age < next) {
            return false;
        }
        next = age + LOOK_EVERY_NS;
        try {
            if (!said && (age >= limits.mostNs || (rests(age) && age >= limits.leastNs))) {
                Files.createFile(Path.of(limits.directory, subtask + SUFFIX));
                said = true;
            }
        } catch (IOException exception) {
            throw new IllegalStateException("cannot say that " + subtask + " is warm", exception);
        }
        return said && saidByAll();
    }

    private boolean rests(long age) {
        long compiled = compiler.getTotalCompilationTime();
        if ((compiled - compiledBefore) * 1e6 > REST_SHARE_MAX * REST_NS) {
            compiledBefore = compiled;
            restingSince = age;
        }
        return age - restingSince >= REST_NS;
    }

    private boolean saidByAll() {
        File[] files =
                new File(limits.directory).listFiles((directory, name) -> name.endsWith(SUFFIX));
        return files.length == limits.subtasks;
    }
}
