import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageMessageData;

/**
 * Times Pulsar's own shedding strategies, in Java alone, on the clusters that bench/shedding.py
 * gives ours: `java -cp "LIB/*" SheddingTime.java AvgShedder 100x100 1000x100`. Prints a line
 * per call:
 * strategy, brokers, bundles a broker, call, best milliseconds, bundles chosen.
 */
public class SheddingTime {
    static final String IMPL = "org.apache.pulsar.broker.loadbalance.impl.";

    /** The same number in 0..1 as `spread` of bench/shedding.py: no random generator to agree on. */
    static double spread(long index) {
        double value = index * 0.6180339887498949;
        return value - Math.floor(value);
    }

    static double scale(int broker) {
        return 0.2 + 1.6 * spread(5L * broker + 2);
    }

    static ResourceUsage usage(int broker, int which) {
        return new ResourceUsage(5 + 90 * spread(3L * broker + which), 100.0);
    }

    static LoadData cluster(int brokers, int each) {
        LoadData data = new LoadData();
        for (int b = 0; b < brokers; b++) {
            LocalBrokerData local = new LocalBrokerData();
            local.setCpu(usage(b, 0));
            local.setBandwidthIn(usage(b, 1));
            local.setBandwidthOut(usage(b, 2));
            double total = 0;
            for (int k = 0; k < each; k++) {
                String name = String.format("t/ns%d/0x%08x_0x%08x", b, k, k + 1);
                double throughput = (1e4 + 990000 * spread((long) b * each + k + 7)) * scale(b)
                        * (100.0 / each);
                TimeAverageMessageData average = new TimeAverageMessageData(10);
                average.setMsgThroughputIn(throughput);
                average.setMsgThroughputOut(throughput);
                average.setMsgRateIn(throughput / 1000);
                average.setMsgRateOut(throughput / 1000);
                BundleData bundle = new BundleData(10, 1000);
                bundle.setShortTermData(average);
                bundle.setLongTermData(average);
                data.getBundleData().put(name, bundle);
                local.getBundles().add(name);
                total += throughput;
            }
            local.setMsgThroughputIn(total);
            local.setMsgThroughputOut(total);
            local.setMsgRateIn(total / 1000);
            local.setMsgRateOut(total / 1000);
            data.getBrokerData().put("broker-" + b + ":8080", new BrokerData(local));
        }
        return data;
    }

    static void modular(String name, LoadData data, int brokers, int each, int rounds)
            throws Exception {
        int calls = name.equals("AvgShedder") ? 2 : 1;
        double[] best = {Double.MAX_VALUE, Double.MAX_VALUE};
        int[] chosen = new int[2];
        ServiceConfiguration conf = new ServiceConfiguration();
        conf.setLoadBalancerAvgShedderHitCountLowThreshold(2);
        for (int round = 0; round < rounds; round++) {
            LoadSheddingStrategy strategy = (LoadSheddingStrategy)
                    Class.forName(IMPL + name).getDeclaredConstructor().newInstance();
            for (int call = 0; call < calls; call++) {
                long began = System.nanoTime();
                int size = strategy.findBundlesForUnloading(data, conf).size();
                best[call] = Math.min(best[call], (System.nanoTime() - began) / 1e6);
                chosen[call] = size;
            }
        }
        for (int call = 0; call < calls; call++) {
            print(name, brokers, each, call + 1, best[call], chosen[call]);
        }
    }

    static void print(String name, int brokers, int each, int call, double best, int chosen) {
        System.out.printf("%s %d %d %d %.6f %d%n", name, brokers, each, call, best, chosen);
        System.out.flush();
    }

    @SuppressWarnings("unchecked")
    static <T> LoadDataStore<T> store(Map<String, T> table) {
        InvocationHandler handler = (self, method, args) -> switch (method.getName()) {
            case "get" -> Optional.ofNullable(table.get((String) args[0]));
            case "entrySet" -> table.entrySet();
            case "size" -> table.size();
            default -> null;
        };
        return (LoadDataStore<T>) proxy(LoadDataStore.class, handler);
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        ClassLoader loader = SheddingTime.class.getClassLoader();
        return type.cast(Proxy.newProxyInstance(loader, new Class<?>[] {type}, handler));
    }

    static void set(BrokerLoadData load, String field, Object value) throws Exception {
        Field found = BrokerLoadData.class.getDeclaredField(field);
        found.setAccessible(true);
        found.set(load, value);
    }

    static void transfer(int brokers, int rounds) throws Exception {
        Map<String, BrokerLoadData> loads = new ConcurrentHashMap<>();
        Map<String, TopBundlesLoadData> tops = new ConcurrentHashMap<>();
        Map<String, BrokerLookupData> available = new HashMap<>();
        for (int b = 0; b < brokers; b++) {
            String name = "broker-" + b + ":8080";
            TopBundlesLoadData top = new TopBundlesLoadData();
            double total = 0;
            for (int k = 0; k < 10; k++) {
                NamespaceBundleStats stats = new NamespaceBundleStats();
                stats.msgThroughputOut = (1 + k) * 1e5 * scale(b);
                total += stats.msgThroughputOut;
                String bundle = String.format("t/ns%d/0x%08x_0x%08x", b, k, k + 1);
                top.getTopBundlesLoadData().add(new TopBundlesLoadData.BundleLoadData(bundle, stats));
            }
            BrokerLoadData load = new BrokerLoadData();
            set(load, "weightedMaxEMA", (5 + 90 * spread(3L * b)) / 100);
            set(load, "msgThroughputOut", total);
            set(load, "msgThroughputEMA", total);
            set(load, "updatedAt", System.currentTimeMillis());
            loads.put(name, load);
            tops.put(name, top);
            available.put(name, new BrokerLookupData(null, null, null, null, null, null,
                    true, true, null, 0, null, Map.of()));
        }
        ServiceConfiguration conf = new ServiceConfiguration();
        conf.setLoadBalancerSheddingConditionHitCountThreshold(0);
        LoadDataStore<BrokerLoadData> loadStore = store(loads);
        LoadDataStore<TopBundlesLoadData> topStore = store(tops);
        BrokerRegistry registry = proxy(BrokerRegistry.class, (self, method, args) ->
                CompletableFuture.completedFuture(available));
        LoadManagerContext context = proxy(LoadManagerContext.class, (self, method, args) ->
                switch (method.getName()) {
                    case "brokerConfiguration" -> conf;
                    case "brokerLoadDataStore" -> loadStore;
                    case "topBundleLoadDataStore" -> topStore;
                    default -> registry;
                });
        double best = Double.MAX_VALUE;
        int chosen = 0;
        for (int round = 0; round < rounds; round++) {
            TransferShedder strategy = new TransferShedder(new UnloadCounter());
            long began = System.nanoTime();
            chosen = strategy.findBundlesForUnloading(context, new HashMap<>(), new HashMap<>()).size();
            best = Math.min(best, (System.nanoTime() - began) / 1e6);
        }
        print("TransferShedder", brokers, 10, 1, best, chosen);
    }

    public static void main(String[] args) throws Exception {
        Configurator.setRootLevel(Level.OFF);
        for (int i = 1; i < args.length; i++) {
            String[] parts = args[i].split("x");
            int brokers = Integer.parseInt(parts[0]);
            int each = Integer.parseInt(parts[1]);
            LoadData data = cluster(brokers, each);
            // What takes seconds is called twice, what takes milliseconds until it is compiled.
            int rounds = brokers * each >= 50000 ? 2 : 10;
            for (String name : args[0].split(",")) {
                switch (name) {
                    case "TransferShedder" -> transfer(brokers, 500);
                    case "UniformLoadShedder" -> modular(name, data, brokers, each, 20 * rounds);
                    default -> modular(name, data, brokers, each, rounds);
                }
            }
        }
        System.exit(0);
    }
}
