import java.io.Serializable;
import java.util.Random;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.types.LongValue;

/** The records of a case: a block that is made once and sent over and over, as in every system. */
abstract class Records<T> implements Serializable {
    private static final long serialVersionUID = 1;

    private static final int BLOCK_BYTES = 1 << 20;

    /** The records. */
    abstract T[] makeBlock();

    /** How Flink serializes them. */
    abstract TypeInformation<T> type();

    /** What a consumer does with every record: its contribution to the checksum. */
    abstract long weigh(T record);

    /** A checksum of every field. */
    abstract long fingerprint(T record);

    /** The key of a keyed exchange, for the cases that have one. */
    KeySelector<T, Integer> key() {
        throw new UnsupportedOperationException(getClass() + " has no key");
    }

    static Records<?> named(String name) {
        switch (name) {
            case "tuple":
            case "keyby":
                return new Tuples();
            case "long":
                return new Longs();
            case "bytes-1k":
                return new Payloads(1 << 10);
            case "bytes-32k":
                return new Payloads(1 << 15);
            case "bytes-1m":
                return new Payloads(1 << 20);
            case "dict":
                return new Orders();
            default:
                throw new IllegalArgumentException("there is no case " + name);
        }
    }

    private static final class Tuples extends Records<Tuple3<Integer, Integer, Double>> {
        private static final long serialVersionUID = 1;


        @Override
        @SuppressWarnings({"rawtypes", "unchecked"})
        Tuple3<Integer, Integer, Double>[] makeBlock() {
            Random random = new Random(1);
            Tuple3<Integer, Integer, Double>[] block = new Tuple3[4096];
            for (int i = 0; i < block.length; i++) {
                int value = random.nextInt() & Integer.MAX_VALUE;
                block[i] = Tuple3.of(random.nextInt(10_000), value, random.nextDouble());
            }
            return block;
        }

        @Override
        TypeInformation<Tuple3<Integer, Integer, Double>> type() {
            return Types.TUPLE(Types.INT, Types.INT, Types.DOUBLE);
        }

        @Override
        long weigh(Tuple3<Integer, Integer, Double> record) {
            return record.f1;
        }

        @Override
        long fingerprint(Tuple3<Integer, Integer, Double> record) {
            return (record.f0 * 31L + record.f1) * 31L + Double.doubleToRawLongBits(record.f2);
        }

        @Override
        KeySelector<Tuple3<Integer, Integer, Double>, Integer> key() {
            return record -> record.f0;
        }
    }

    private static final class Longs extends Records<LongValue> {
        private static final long serialVersionUID = 1;


        @Override
        LongValue[] makeBlock() {
            Random random = new Random(2);
            LongValue[] block = new LongValue[4096];
            for (int i = 0; i < block.length; i++) {
                block[i] = new LongValue(random.nextLong() & Long.MAX_VALUE);
            }
            return block;
        }

        @Override
        TypeInformation<LongValue> type() {
            return TypeInformation.of(LongValue.class);
        }

        @Override
        long weigh(LongValue record) {
            return record.getValue();
        }

        @Override
        long fingerprint(LongValue record) {
            return record.getValue();
        }
    }

    private static final class Payloads extends Records<byte[]> {
        private static final long serialVersionUID = 1;


        private final int size;

        Payloads(int size) {
            this.size = size;
        }

        @Override
        byte[][] makeBlock() {
            byte[][] block = new byte[BLOCK_BYTES / size][size];
            Random random = new Random(size);
            for (byte[] record : block) {
                random.nextBytes(record);
            }
            return block;
        }

        @Override
        TypeInformation<byte[]> type() {
            return PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        }

        @Override
        long weigh(byte[] record) {
            return record[record.length - 1];
        }

        @Override
        long fingerprint(byte[] record) {
            long sum = 0;
            for (byte each : record) {
                sum = sum * 31 + each;
            }
            return sum;
        }
    }

    private static final class Orders extends Records<Order> {
        private static final long serialVersionUID = 1;


        private static final String[] CURRENCIES = {"EUR", "USD", "GBP", "JPY"};
        private static final long FIRST_TIME_MS = 1_767_225_600_000L;

        @Override
        Order[] makeBlock() {
            Random random = new Random(3);
            Order[] block = new Order[2048];
            for (int i = 0; i < block.length; i++) {
                Order order = block[i] = new Order();
                order.orderId = random.nextLong() & ((1L << 40) - 1);
                order.customer = String.format("customer-%05d", random.nextInt(10_000));
                order.product = String.format("%08x-%04x", random.nextInt(), random.nextInt(1 << 16));
                order.quantity = 1 + random.nextInt(12);
                order.price = Math.round(100 + random.nextDouble() * 49_900) / 100.0;
                order.currency = CURRENCIES[random.nextInt(CURRENCIES.length)];
                order.express = random.nextDouble() < 0.2;
                order.timeMs = FIRST_TIME_MS + i;
            }
            return block;
        }

        @Override
        TypeInformation<Order> type() {
            return Types.POJO(Order.class);
        }

        @Override
        long weigh(Order record) {
            return record.orderId;
        }

        @Override
        long fingerprint(Order record) {
            return java.util.Objects.hash(
                    record.orderId,
                    record.customer,
                    record.product,
                    record.quantity,
                    record.price,
                    record.currency,
                    record.express,
                    record.timeMs);
        }
    }

    /** An order of a web shop: eight fields, serialized by Flink's PojoSerializer. */
    public static final class Order {
        public long orderId;
        public String customer;
        public String product;
        public int quantity;
        public double price;
        public String currency;
        public boolean express;
        public long timeMs;
    }
}
