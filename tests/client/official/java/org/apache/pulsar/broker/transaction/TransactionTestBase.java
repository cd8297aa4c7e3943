package org.apache.pulsar.broker.transaction;

import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.auth.MockedPulsarServiceBaseTest;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.common.naming.SystemTopicNames;
import org.apache.pulsar.common.partition.PartitionedTopicMetadata;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.TenantInfoImpl;
import org.apache.pulsar.metadata.api.MetadataStoreException;

/** Runs Pulsar's own tests of transactions on a broker of another process. */
public abstract class TransactionTestBase extends MockedPulsarServiceBaseTest {
    public static final String TENANT = "tnx";
    protected static final String NAMESPACE1 = TENANT + "/ns1";
    protected List<PulsarService> pulsarServiceList = List.of();

    @Override
    protected ServiceConfiguration getDefaultConf() {
        ServiceConfiguration made = super.getDefaultConf();
        made.setForceDeleteNamespaceAllowed(true);
        made.setTransactionCoordinatorEnabled(true);
        made.setBrokerDeduplicationEnabled(true);
        return made;
    }

    /** Ignored: there is one. */
    public void setBrokerCount(int count) {
    }

    @Override
    protected void startBroker() throws Exception {
        super.startBroker();
        pulsarServiceList = List.of(pulsar);
    }

    protected void createTransactionCoordinatorAssign(int coordinators) throws MetadataStoreException {
        pulsar.getPulsarResources().getNamespaceResources().getPartitionedTopicResources().createPartitionedTopic(
                SystemTopicNames.TRANSACTION_COORDINATOR_ASSIGN, new PartitionedTopicMetadata(coordinators));
    }

    /** One broker, whatever their number; its coordinators are as many as it makes. */
    protected void setUpBase(int brokers, int coordinators, String topic, int partitions) throws Exception {
        internalSetup();
        admin.clusters().createCluster(configClusterName,
                ClusterData.builder().serviceUrl(brokerUrl.toString()).build());
        admin.tenants().createTenant(TENANT, new TenantInfoImpl(Set.of("appid1"), Set.of(configClusterName)));
        admin.namespaces().createNamespace(NAMESPACE1, 4);
        if (topic != null && partitions == 0) {
            admin.topics().createNonPartitionedTopic(topic);
        } else if (topic != null) {
            admin.topics().createPartitionedTopic(topic, partitions);
        }
        pulsarClient.shutdown();
        pulsarClient = createNewPulsarClient(PulsarClient.builder()
                .serviceUrl(pulsar.getBrokerServiceUrl())
                .statsInterval(0, TimeUnit.SECONDS)
                .enableTransaction(true));
    }

    public List<PulsarService> getPulsarServiceList() {
        return pulsarServiceList;
    }
}
