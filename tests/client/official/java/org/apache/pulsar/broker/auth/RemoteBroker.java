package org.apache.pulsar.broker.auth;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.ManagedCursorContainer;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.apache.bookkeeper.mledger.proto.MLDataFormats.ManagedLedgerInfo.LedgerInfo;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.service.AbstractTopic;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.Producer;
import org.apache.pulsar.broker.service.Subscription;
import org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService;
import org.apache.pulsar.broker.service.Topic;
import org.apache.pulsar.broker.service.TopicPoliciesService;
import org.apache.pulsar.broker.service.nonpersistent.NonPersistentSubscription;
import org.apache.pulsar.broker.service.nonpersistent.NonPersistentTopic;
import org.apache.pulsar.broker.service.persistent.DispatchRateLimiter;
import org.apache.pulsar.broker.service.persistent.PersistentDispatcherMultipleConsumers;
import org.apache.pulsar.broker.service.persistent.PersistentDispatcherSingleActiveConsumer;
import org.apache.pulsar.broker.service.persistent.PersistentStickyKeyDispatcherMultipleConsumers;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;
import org.apache.pulsar.broker.service.persistent.PersistentTopic;
import org.apache.pulsar.broker.service.schema.SchemaRegistry.SchemaAndMetadata;
import org.apache.pulsar.broker.service.schema.SchemaRegistryService;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.common.api.proto.CommandSubscribe.SubType;
import org.apache.pulsar.common.naming.SystemTopicNames;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.HierarchyTopicPolicies;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats.CursorStats;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.PersistentTopicInternalStats;
import org.apache.pulsar.common.policies.data.PolicyHierarchyValue;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SubscriptionStats;
import org.apache.pulsar.common.policies.data.TopicPolicies;
import org.apache.pulsar.common.protocol.schema.PostSchemaPayload;
import org.apache.pulsar.common.protocol.schema.SchemaData;
import org.apache.pulsar.common.protocol.schema.SchemaVersion;
import org.apache.pulsar.common.schema.LongSchemaVersion;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

/**
 * What a test reads of a broker's own objects, answered by the admin API of the broker that runs
 * in another process, or by the server that started it.
 */
final class RemoteBroker {
    /** Asks the server of the clusters. */
    interface Server {
        Map<?, ?> ask(String verb, Map<String, String> body) throws Exception;
    }

    private static final BacklogQuota NO_QUOTA = BacklogQuota.builder().limitSize(-1).limitTime(-1)
            .retentionPolicy(BacklogQuota.RetentionPolicy.producer_request_hold).build();

    private final Callable<PulsarAdmin> admin;
    private final Server server;

    RemoteBroker(Callable<PulsarAdmin> admin, Server server) {
        this.admin = admin;
        this.server = server;
    }

    private PulsarAdmin admin() throws Exception {
        return admin.call();
    }

    /** An object that answers by the function alone, and is as Java's defaults where it is null. */
    private static <T> T view(Class<T> type, org.mockito.stubbing.Answer<?> answer) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            switch (call.getMethod().getName()) {
                case "toString":
                    return type.getSimpleName() + " of another process";
                case "hashCode":
                    return System.identityHashCode(call.getMock());
                case "equals":
                    return call.getMock() == call.getArgument(0);
                default:
                    return answer.answer(call);
            }
        }));
    }

    private static Error unknown(InvocationOnMock call) {
        Class<?> of = call.getMethod().getDeclaringClass();
        return new MockedPulsarServiceBaseTest.BrokerInternals(
                of.getSimpleName() + "." + call.getMethod().getName());
    }

    private static CompletableFuture<?> future(Callable<?> what) {
        try {
            return CompletableFuture.completedFuture(what.call());
        } catch (Exception error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    BrokerService service() {
        return view(BrokerService.class, call -> switch (call.getMethod().getName()) {
            case "isSystemTopic" -> SystemTopicNames.isSystemTopic(TopicName.get(call.getArgument(0).toString()));
            case "getTopicReference" -> isLoaded(text(call)) ? Optional.of(topic(text(call))) : Optional.empty();
            case "getTopicIfExists" -> future(() -> existing(text(call), false));
            case "getTopic" -> future(() -> existing(text(call), call.getArgument(1)));
            case "getOrCreateTopic" -> future(() -> existing(text(call), true).get());
            case "getTopics" -> loaded().stream().collect(Collectors.toConcurrentMap(
                    name -> name, name -> CompletableFuture.completedFuture(Optional.of(topic(name)))));
            case "getManagedLedgerConfig" -> future(() -> ledgerConfig(text(call)));
            case "checkGC", "checkCompaction", "checkMessageExpiry", "checkMessageDeduplicationInfo",
                    "checkInactiveSubscriptions" -> upkeep();
            case "updateRates" -> null;
            default -> throw unknown(call);
        });
    }

    private static String text(InvocationOnMock call) {
        return TopicName.get(call.getArgument(0).toString()).toString();
    }

    /** The topic that has the policies. */
    private static String whole(String topic) {
        return TopicName.get(topic).getPartitionedTopicName();
    }

    private Object upkeep() throws Exception {
        server.ask("upkeep", Map.of());
        return null;
    }

    private List<String> loaded() throws Exception {
        return ((List<?>) server.ask("loaded", Map.of()).get("topics")).stream().map(Object::toString).toList();
    }

    private boolean isLoaded(String topic) throws Exception {
        return loaded().contains(topic);
    }

    private Optional<Topic> existing(String name, boolean create) throws Exception {
        try {
            admin().topics().getStats(name);
        } catch (PulsarAdminException.NotFoundException error) {
            if (!create) {
                return Optional.empty();
            }
            admin().topics().createNonPartitionedTopic(name);
        }
        return Optional.of(topic(name));
    }

    private Topic topic(String name) {
        Class<? extends AbstractTopic> type =
                TopicName.get(name).isPersistent() ? PersistentTopic.class : NonPersistentTopic.class;
        return view(type, call -> switch (call.getMethod().getName()) {
            case "getName" -> name;
            case "isPersistent" -> TopicName.get(name).isPersistent();
            case "isSystemTopic" -> SystemTopicNames.isSystemTopic(TopicName.get(name));
            case "getSubscription" -> subscriptions(name).get(call.<String>getArgument(0));
            case "getSubscriptions" -> subscriptions(name);
            case "getProducers" -> producers(name);
            case "getStats" -> admin().topics().getStats(name, true);
            case "getInternalStats" -> future(() -> admin().topics().getInternalStats(name));
            case "getLastMessageId" -> future(() -> admin().topics().getLastMessageId(name));
            case "getInactiveTopicPolicies" -> admin().topics().getInactiveTopicPolicies(whole(name), true);
            case "getBacklogQuota" -> admin().topics().getBacklogQuotaMap(whole(name), true)
                    .getOrDefault(call.getArgument(0), NO_QUOTA);
            case "getDispatchRateLimiter" -> Optional.of(limiter(admin().topics().getDispatchRate(whole(name), true)));
            case "isDeduplicationEnabled" -> admin().topics().getDeduplicationStatus(whole(name), true);
            case "getHierarchyTopicPolicies" -> rules(name);
            case "getMaxUnackedMessagesOnSubscription" -> admin().topics().getMaxUnackedMessagesOnSubscription(whole(name), true);
            case "getManagedLedger" -> ledger(name);
            case "triggerCompaction" -> {
                admin().topics().triggerCompaction(name);
                yield null;
            }
            case "compactionStatus" -> admin().topics().compactionStatus(name);
            case "checkCompaction", "checkGC", "checkMessageExpiry" -> upkeep();
            case "close", "unloadSubscription" -> admin().topics().unloadAsync(name);
            case "delete" -> admin().topics().deleteAsync(name, false);
            case "deleteForcefully" -> admin().topics().deleteAsync(name, true);
            default -> throw unknown(call);
        });
    }

    private Map<String, Producer> producers(String topic) throws Exception {
        return admin().topics().getStats(topic).getPublishers().stream().collect(Collectors.toMap(
                each -> each.getProducerName(),
                each -> view(Producer.class, call -> switch (call.getMethod().getName()) {
                    case "getProducerName" -> each.getProducerName();
                    case "getProducerId" -> each.getProducerId();
                    case "getStats" -> each;
                    default -> throw unknown(call);
                })));
    }

    private Map<String, Object> subscriptions(String topic) throws Exception {
        Class<? extends Subscription> type = TopicName.get(topic).isPersistent()
                ? PersistentSubscription.class : NonPersistentSubscription.class;
        Map<String, Object> found = new HashMap<>();
        for (String name : admin().topics().getStats(topic).getSubscriptions().keySet()) {
            found.put(name, view(type, call -> switch (call.getMethod().getName()) {
                case "getName" -> name;
                case "getNumberOfEntriesInBacklog" -> admin().topics().getStats(topic, call.<Boolean>getArgument(0).booleanValue())
                        .getSubscriptions().get(name).getMsgBacklog();
                case "getSubscriptionProperties" -> stats(topic, name).getSubscriptionProperties();
                case "getType" -> SubType.valueOf(stats(topic, name).getType());
                case "getConsumers" -> consumers(topic, name);
                case "getDispatcher" -> dispatcher(topic, name);
                case "getCursor" -> cursor(topic, name);
                default -> throw unknown(call);
            }));
        }
        return found;
    }

    private SubscriptionStats stats(String topic, String subscription) throws Exception {
        return admin().topics().getStats(topic).getSubscriptions().get(subscription);
    }

    private List<Consumer> consumers(String topic, String subscription) throws Exception {
        return stats(topic, subscription).getConsumers().stream()
                .map(each -> view(Consumer.class, call -> switch (call.getMethod().getName()) {
                    case "consumerName" -> each.getConsumerName();
                    case "getStats" -> each;
                    case "getUnackedMessages" -> each.getUnackedMessages();
                    case "getMaxUnackedMessages" -> admin().topics().getMaxUnackedMessagesOnConsumer(whole(topic), true);
                    default -> throw unknown(call);
                })).toList();
    }

    private Object dispatcher(String topic, String subscription) throws Exception {
        String kind = stats(topic, subscription).getType();
        if (kind == null) {
            return null;
        }
        Class<? extends Dispatcher> type = switch (SubType.valueOf(kind)) {
            case Shared -> PersistentDispatcherMultipleConsumers.class;
            case Key_Shared -> PersistentStickyKeyDispatcherMultipleConsumers.class;
            default -> PersistentDispatcherSingleActiveConsumer.class;
        };
        return view(type, call -> switch (call.getMethod().getName()) {
            case "getConsumers" -> consumers(topic, subscription);
            case "isConsumerConnected" -> !consumers(topic, subscription).isEmpty();
            case "getNumberOfDelayedMessages" -> stats(topic, subscription).getMsgDelayed();
            case "getRateLimiter" -> {
                DispatchRate found = admin().topicPolicies().getSubscriptionDispatchRate(whole(topic), subscription, true);
                yield found == null ? Optional.empty() : Optional.of(limiter(found));
            }
            default -> throw unknown(call);
        });
    }

    private static DispatchRateLimiter limiter(DispatchRate rate) {
        return view(DispatchRateLimiter.class, call -> switch (call.getMethod().getName()) {
            case "getDispatchRateOnMsg" -> (long) rate.getDispatchThrottlingRateInMsg();
            case "getDispatchRateOnByte" -> rate.getDispatchThrottlingRateInByte();
            default -> throw unknown(call);
        });
    }

    private HierarchyTopicPolicies rules(String topic) {
        return view(HierarchyTopicPolicies.class, call -> view(PolicyHierarchyValue.class, get -> {
            String policy = call.getMethod().getName();
            Map<?, ?> found = server.ask("rules", Map.of("topic", topic));
            if (!get.getMethod().getName().equals("get") || !found.containsKey(policy)) {
                throw unknown(call);
            }
            Object value = found.get(policy);
            if (policy.equals("getSubscriptionTypesEnabled")) {
                return ((List<?>) value).stream().map(each -> SubType.valueOf(each.toString()))
                        .collect(Collectors.toCollection(() -> EnumSet.noneOf(SubType.class)));
            }
            return value;
        }));
    }

    private ManagedLedgerConfig ledgerConfig(String topic) {
        return view(ManagedLedgerConfig.class, call -> {
            RetentionPolicies retention = admin().topics().getRetention(whole(topic), true);
            PersistencePolicies quorums = admin().topics().getPersistence(whole(topic), true);
            return switch (call.getMethod().getName()) {
                case "getRetentionSizeInMB" -> (long) retention.getRetentionSizeInMB();
                case "getRetentionTimeMillis" -> TimeUnit.MINUTES.toMillis(retention.getRetentionTimeInMinutes());
                case "getEnsembleSize" -> quorums.getBookkeeperEnsemble();
                case "getWriteQuorumSize" -> quorums.getBookkeeperWriteQuorum();
                case "getAckQuorumSize" -> quorums.getBookkeeperAckQuorum();
                case "getThrottleMarkDelete" -> quorums.getManagedLedgerMaxMarkDeleteRate();
                default -> throw unknown(call);
            };
        });
    }

    private PersistentTopicInternalStats ledgers(String topic) throws Exception {
        return admin().topics().getInternalStats(topic);
    }

    private static Position position(String text) {
        String[] parts = text.split(":");
        return PositionFactory.create(Long.parseLong(parts[0]), Long.parseLong(parts[1]));
    }

    private ManagedLedgerImpl ledger(String topic) {
        return view(ManagedLedgerImpl.class, call -> switch (call.getMethod().getName()) {
            case "getName" -> TopicName.get(topic).getPersistenceNamingEncoding();
            case "getConfig" -> ledgerConfig(topic);
            case "getLastConfirmedEntry" -> position(ledgers(topic).lastConfirmedEntry);
            case "getNumberOfEntries" -> ledgers(topic).numberOfEntries;
            case "getTotalSize" -> ledgers(topic).totalSize;
            case "getState" -> ManagedLedgerImpl.State.LedgerOpened;
            case "getLedgersInfo" -> ledgers(topic).ledgers.stream().collect(Collectors.toMap(
                    each -> each.ledgerId,
                    each -> LedgerInfo.newBuilder().setLedgerId(each.ledgerId).setEntries(each.entries)
                            .setSize(each.size).build(),
                    (first, second) -> second, TreeMap::new));
            case "getCursors" -> {
                ManagedCursorContainer all = new ManagedCursorContainer();
                for (String name : ledgers(topic).cursors.keySet()) {
                    ManagedCursorImpl made = cursor(topic, name);
                    all.add(made, made.getMarkDeletedPosition());
                }
                yield all;
            }
            case "trimConsumedLedgersInBackground" -> {
                admin().topics().trimTopic(topic);
                ((CompletableFuture<?>) Arrays.stream(call.getArguments()).reduce((a, b) -> b).get()).complete(null);
                yield null;
            }
            default -> throw unknown(call);
        });
    }

    private ManagedCursorImpl cursor(String topic, String name) {
        return view(ManagedCursorImpl.class, call -> {
            CursorStats found = ledgers(topic).cursors.get(name);
            return switch (call.getMethod().getName()) {
                case "getName" -> name;
                case "getMarkDeletedPosition" -> position(found.markDeletePosition);
                case "getReadPosition" -> position(found.readPosition);
                case "getManagedLedger" -> ledger(topic);
                case "getState" -> found.state;
                case "isDurable" -> true;
                case "getThrottleMarkDelete" -> ledgerConfig(topic).getThrottleMarkDelete();
                case "getNumberOfEntriesInBacklog" -> stats(topic, name).getMsgBacklog();
                default -> throw unknown(call);
            };
        });
    }

    TopicPoliciesService policies() {
        return view(SystemTopicBasedTopicPoliciesService.class, call -> {
            if (!call.getMethod().getName().equals("getTopicPoliciesAsync")) {
                throw unknown(call);
            }
            return future(() -> {
                Map<?, ?> found = server.ask("policies",
                        Map.of("topic", text(call), "level", call.getArgument(1).toString()));
                return found.isEmpty() ? Optional.empty()
                        : Optional.of(ObjectMapperFactory.getMapper().getObjectMapper()
                                .convertValue(found.get("found"), TopicPolicies.class));
            });
        });
    }

    SchemaRegistryService schemas() {
        return view(SchemaRegistryService.class, call -> {
            String topic = TopicName.get(call.getArgument(0).toString()).toString();
            return switch (call.getMethod().getName()) {
                case "getSchema" -> future(() -> {
                    try {
                        var found = admin().schemas().getSchemaInfoWithVersion(topic);
                        return of(found.getSchemaInfo());
                    } catch (PulsarAdminException.NotFoundException error) {
                        return null;
                    }
                });
                case "getAllSchemas" -> future(() -> all(topic).stream().map(CompletableFuture::completedFuture)
                        .toList());
                case "trimDeletedSchemaAndGetList" -> future(() -> all(topic));
                case "putSchemaIfAbsent" -> future(() -> {
                    SchemaData data = call.getArgument(1);
                    admin().schemas().createSchema(topic, new PostSchemaPayload(
                            data.getType().name(), new String(data.getData(), "UTF-8"), data.getProps()));
                    return new LongSchemaVersion(0);
                });
                default -> throw unknown(call);
            };
        });
    }

    private List<SchemaAndMetadata> all(String topic) throws Exception {
        try {
            List<SchemaAndMetadata> found = new ArrayList<>();
            for (SchemaInfo each : admin().schemas().getAllSchemas(topic)) {
                found.add(of(each));
            }
            return found;
        } catch (PulsarAdminException.NotFoundException error) {
            return List.of();
        }
    }

    private static SchemaAndMetadata of(SchemaInfo found) throws ReflectiveOperationException {
        SchemaData data = SchemaData.builder().data(found.getSchema()).type(found.getType())
                .props(found.getProperties()).user("").build();
        Constructor<SchemaAndMetadata> made =
                SchemaAndMetadata.class.getDeclaredConstructor(String.class, SchemaData.class, SchemaVersion.class);
        made.setAccessible(true);
        return made.newInstance("", data, new LongSchemaVersion(0));
    }

    NamespaceService namespaces() {
        return view(NamespaceService.class, call -> {
            if (call.getMethod().getName().equals("isServiceUnitOwned")) {
                return server.ask("owned", Map.of()).containsKey(call.getArgument(0).toString());
            }
            throw unknown(call);
        });
    }
}
