import org.apache.pulsar.broker.qos.AsyncTokenBucket;

/**
 * Times Pulsar's own token bucket, in Java alone, one thread and a rate that is never exceeded:
 * `java -cp "LIB/*" TokenTime.java 2000000`. Prints "consume and check" and "consume", in
 * nanoseconds a call, the best of nine rounds of so many calls.
 */
public class TokenTime {
    static long kept;

    public static void main(String[] arguments) {
        int calls = Integer.parseInt(arguments[0]);
        AsyncTokenBucket bucket =
                AsyncTokenBucket.builder().rate(1_000_000_000L).capacity(1_000_000_000_000L).build();
        double check = Double.MAX_VALUE;
        double consume = Double.MAX_VALUE;
        for (int round = 0; round < 9; round++) {
            long began = System.nanoTime();
            for (int call = 0; call < calls; call++) {
                kept += bucket.consumeTokensAndCheckIfContainsTokens(1) ? 1 : 0;
            }
            long middle = System.nanoTime();
            for (int call = 0; call < calls; call++) {
                bucket.consumeTokens(1);
            }
            long ended = System.nanoTime();
            check = Math.min(check, (middle - began) / (double) calls);
            consume = Math.min(consume, (ended - middle) / (double) calls);
        }
        System.out.println("consume and check " + check);
        System.out.println("consume " + consume);
        System.exit(kept == 0 ? 1 : 0);
    }
}
