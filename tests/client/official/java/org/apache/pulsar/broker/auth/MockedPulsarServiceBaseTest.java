package org.apache.pulsar.broker.auth;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.client.admin.Clusters;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminBuilder;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.Tenants;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.impl.ConnectionPool;
import org.apache.pulsar.client.impl.PulsarClientImpl;
import org.apache.pulsar.common.configuration.FieldContext;
import org.apache.pulsar.common.naming.SystemTopicNames;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.TenantInfoImpl;
import org.apache.pulsar.common.policies.data.TopicType;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.tests.TestRetrySupport;
import org.mockito.Mockito;

/**
 * Runs Pulsar's own tests on a broker of another process, in place of the class of this name, which
 * starts one in this process.
 *
 * <p>A test's settings go to the URL of the system property {@code clusters}, which starts a
 * cluster with them. What is not here cannot be had of such a cluster: a test that asks for it ends
 * with a linkage error or {@link BrokerInternals}, and {@code Verdicts} skips it.
 */
public abstract class MockedPulsarServiceBaseTest extends TestRetrySupport {
    /** A test looked into the broker. */
    public static final class BrokerInternals extends Error {
        BrokerInternals(String method) {
            super("it looks into the broker by PulsarService." + method);
        }
    }

    /** What of a broker's service is a function of names alone. */
    private static final BrokerService NAMES_ONLY = Mockito.mock(BrokerService.class, call -> {
        if (call.getMethod().getName().equals("isSystemTopic")) {
            return SystemTopicNames.isSystemTopic(TopicName.get(call.getArgument(0).toString()));
        }
        throw new BrokerInternals("getBrokerService");
    });

    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final Set<String> BEGUN_WITH = Set.of("test", "public", "public/default");

    protected final String configClusterName = "test";
    protected ServiceConfiguration conf;
    protected PulsarService pulsar;
    protected PulsarAdmin admin;
    protected PulsarClient pulsarClient;
    protected URL brokerUrl;
    protected URI lookupUrl;
    protected boolean isTcpLookup = false;
    private String binaryUrl;
    private Map<String, String> startedWith = Map.of();

    public MockedPulsarServiceBaseTest() {
        resetConfig();
    }

    protected abstract void setup() throws Exception;

    protected abstract void cleanup() throws Exception;

    protected final void resetConfig() {
        conf = getDefaultConf();
    }

    protected ServiceConfiguration getDefaultConf() {
        ServiceConfiguration made = new ServiceConfiguration();
        made.setClusterName(configClusterName);
        made.setBrokerServicePort(Optional.of(0));
        made.setWebServicePort(Optional.of(0));
        made.setDefaultNumberOfNamespaceBundles(1);
        made.setActiveConsumerFailoverDelayTimeMillis(0);
        made.setAllowAutoTopicCreationType(TopicType.NON_PARTITIONED);
        made.setDispatcherRetryBackoffInitialTimeInMs(0);
        made.setDispatcherRetryBackoffMaxTimeInMs(0);
        return made;
    }

    protected void doInitConf() throws Exception {
    }

    protected final void internalSetup() throws Exception {
        incrementSetupNumber();
        init();
        lookupUrl = new URI(isTcpLookup ? binaryUrl : brokerUrl.toString());
        pulsarClient = newPulsarClient(lookupUrl.toString(), 0);
    }

    protected final void internalSetup(ServiceConfiguration settings) throws Exception {
        conf = settings;
        internalSetup();
    }

    protected final void internalSetupForStatsTest() throws Exception {
        incrementSetupNumber();
        init();
        lookupUrl = new URI(isTcpLookup ? binaryUrl : brokerUrl.toString());
        pulsarClient = newPulsarClient(lookupUrl.toString(), 1);
    }

    protected final void setupWithClusterName(String name) throws Exception {
        conf.setClusterName(name);
        internalSetup();
    }

    protected final void init() throws Exception {
        doInitConf();
        startBroker();
    }

    protected final void internalCleanup() throws Exception {
        markCurrentSetupNumberCleaned();
        closeAdmin();
        if (pulsarClient != null) {
            pulsarClient.shutdown();
            pulsarClient = null;
        }
        onCleanup();
        if (brokerUrl != null) {
            brokerUrl = null;
            ask("end", Map.of());
        }
        resetConfig();
    }

    protected void closeAdmin() {
        if (admin != null) {
            admin.close();
            admin = null;
        }
    }

    protected void onCleanup() {
    }

    protected void startBroker() throws Exception {
        startedWith = settings();
        Map<?, ?> urls = ask("start", startedWith);
        brokerUrl = new URL((String) urls.get("admin"));
        binaryUrl = (String) urls.get("broker");
        closeAdmin();
        PulsarAdminBuilder builder = PulsarAdmin.builder().serviceHttpUrl(brokerUrl.toString());
        customizeNewPulsarAdminBuilder(builder);
        admin = lenient(PulsarAdmin.class, builder.build());
        pulsar = Mockito.mock(PulsarService.class, call -> switch (call.getMethod().getName()) {
            case "getWebServiceAddress", "getSafeWebServiceAddress" -> brokerUrl.toString();
            case "getBrokerServiceUrl", "getSafeBrokerServiceUrl" -> binaryUrl;
            case "getBrokerListenPort" -> Optional.of(URI.create(binaryUrl).getPort());
            case "getListenPortHTTP" -> Optional.of(brokerUrl.getPort());
            case "getConfiguration", "getConfig" -> conf;
            case "getAdminClient" -> admin;
            case "getBrokerService" -> NAMES_ONLY;
            case "toString" -> "a broker of another process";
            case "close" -> throw new BrokerInternals("close");
            default -> throw new BrokerInternals(call.getMethod().getName());
        });
    }

    protected void stopBroker() throws Exception {
        ask("stop", Map.of());
    }

    protected void restartBroker() throws Exception {
        stopBroker();
        startBroker();
    }

    protected void restartBroker(Consumer<ServiceConfiguration> change) throws Exception {
        stopBroker();
        change.accept(conf);
        startBroker();
    }

    protected void customizeNewPulsarAdminBuilder(PulsarAdminBuilder builder) {
    }

    protected void customizeNewPulsarClientBuilder(ClientBuilder builder) {
    }

    protected PulsarClient newPulsarClient(String url, int statsInterval) throws PulsarClientException {
        ClientBuilder builder =
                PulsarClient.builder().serviceUrl(url).statsInterval(statsInterval, TimeUnit.SECONDS);
        customizeNewPulsarClientBuilder(builder);
        return createNewPulsarClient(builder);
    }

    protected PulsarClient createNewPulsarClient(ClientBuilder builder) throws PulsarClientException {
        return builder.build();
    }

    protected PulsarClient replacePulsarClient(ClientBuilder builder) throws PulsarClientException {
        if (pulsarClient != null) {
            pulsarClient.shutdown();
        }
        pulsarClient = createNewPulsarClient(builder);
        return pulsarClient;
    }

    protected TenantInfoImpl createDefaultTenantInfo() throws PulsarAdminException {
        return new TenantInfoImpl(Set.of("appid1", "appid2"), Set.of(conf.getClusterName()));
    }

    protected void setupDefaultTenantAndNamespace() throws Exception {
    }

    protected void deleteNamespaceWithRetry(String namespace, boolean force) throws Exception {
        deleteNamespaceWithRetry(namespace, force, admin);
    }

    public static void deleteNamespaceWithRetry(String namespace, boolean force, PulsarAdmin asked)
            throws Exception {
        for (int left = 20;; left--) {
            try {
                asked.namespaces().deleteNamespace(namespace, force);
                return;
            } catch (PulsarAdminException error) {
                if (left == 0 || error instanceof PulsarAdminException.NotFoundException) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }

    public static boolean retryStrategically(Predicate<Void> holds, int times, long stepMs)
            throws Exception {
        for (int tried = 0; tried < times; tried++) {
            if (holds.test(null)) {
                return true;
            }
            Thread.sleep(stepMs * (tried + 1));
        }
        return holds.test(null);
    }

    public static void setFieldValue(Class<?> of, Object object, String name, Object value)
            throws Exception {
        Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    protected void sleepSeconds(int seconds) throws InterruptedException {
        TimeUnit.SECONDS.sleep(seconds);
    }

    protected void logTopicStats(String topic) {
    }

    protected PulsarService getPulsar() {
        return pulsar;
    }

    protected void reconnectAllConnections() throws Exception {
        Method close = ConnectionPool.class.getDeclaredMethod("closeAllConnections");
        close.setAccessible(true);
        close.invoke(((PulsarClientImpl) pulsarClient).getCnxPool());
    }

    /** Whether the test changed a setting of a broker that runs, which it can only by a restart. */
    public boolean changedSettings() {
        return !startedWith.isEmpty() && !startedWith.equals(settings());
    }

    /** The settings that are not Pulsar's defaults, by name. */
    private Map<String, String> settings() {
        ServiceConfiguration defaults = new ServiceConfiguration();
        Map<String, String> found = new TreeMap<>();
        for (Field field : ServiceConfiguration.class.getDeclaredFields()) {
            if (field.getAnnotation(FieldContext.class) == null) {
                continue;
            }
            field.setAccessible(true);
            try {
                Object value = field.get(conf);
                if (!Objects.equals(value, field.get(defaults))) {
                    found.put(field.getName(), text(value));
                }
            } catch (IllegalAccessException error) {
                throw new IllegalStateException(error);
            }
        }
        return found;
    }

    private static String text(Object value) {
        if (value instanceof Optional<?> there) {
            return there.map(MockedPulsarServiceBaseTest::text).orElse("");
        }
        if (value instanceof Collection<?> many) {
            return String.join(",", many.stream().map(MockedPulsarServiceBaseTest::text).toList());
        }
        return value instanceof TopicType type ? type.toString() : String.valueOf(value);
    }

    private Map<?, ?> ask(String verb, Map<String, String> body) throws IOException, InterruptedException {
        String name = getClass().getSimpleName() + "-" + System.identityHashCode(this);
        URI uri = URI.create(System.getProperty("clusters") + "/" + verb + "/" + name);
        String json = ObjectMapperFactory.getMapper().writer().writeValueAsString(body);
        HttpRequest request =
                HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.ofString(json)).build();
        HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException(answer.body());
        }
        return ObjectMapperFactory.getMapper().reader().readValue(answer.body(), Map.class);
    }

    /** An admin client for which creating what a cluster of ours begins with succeeds. */
    private static <T> T lenient(Class<T> type, T real) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
                (proxy, method, arguments) -> {
            if (method.getName().equals("createNamespace") && isOfPulsar1(arguments[0])) {
                return null;
            }
            try {
                Object result = method.invoke(real, arguments);
                if (List.of("clusters", "tenants", "namespaces").contains(method.getName())
                        && method.getParameterCount() == 0) {
                    return lenientResource(result);
                }
                return result;
            } catch (InvocationTargetException error) {
                if (error.getCause() instanceof PulsarAdminException.ConflictException
                        && method.getName().startsWith("create")
                        && BEGUN_WITH.contains(arguments[0])) {
                    return null;
                }
                throw error.getCause();
            }
        }));
    }

    /** Whether a namespace's name has a cluster in it: none of ours has. */
    private static boolean isOfPulsar1(Object namespace) {
        return namespace.toString().chars().filter(each -> each == '/').count() == 2;
    }

    private static Object lenientResource(Object real) {
        if (real instanceof Clusters clusters) {
            return lenient(Clusters.class, clusters);
        }
        return real instanceof Tenants tenants ? lenient(Tenants.class, tenants)
                : lenient(Namespaces.class, (Namespaces) real);
    }
}
