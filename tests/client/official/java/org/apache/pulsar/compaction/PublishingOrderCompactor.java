package org.apache.pulsar.compaction;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.client.admin.LongRunningProcessStatus;
import org.apache.pulsar.client.admin.LongRunningProcessStatus.Status;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.RawReader;
import org.apache.pulsar.client.impl.PulsarClientImpl;

/** Has the broker compact a topic, in place of the class of this name, which does it itself. */
public class PublishingOrderCompactor extends Compactor {
    /** Tests write it besides the setting. */
    private boolean topicCompactionRetainNullKey;

    public PublishingOrderCompactor(ServiceConfiguration conf, PulsarClient client, BookKeeper bk,
            ScheduledExecutorService scheduler) {
        super(conf, client, bk, scheduler);
    }

    @Override
    public CompletableFuture<Long> compact(String topic) {
        String url = ((PulsarClientImpl) pulsar).getConfiguration().getServiceUrl();
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(url).build()) {
            admin.topics().triggerCompaction(topic);
            LongRunningProcessStatus found;
            do {
                Thread.sleep(20);
                found = admin.topics().compactionStatus(topic);
            } while (found.status == Status.RUNNING);
            return found.status == Status.SUCCESS ? CompletableFuture.completedFuture(-1L)
                    : CompletableFuture.failedFuture(new IllegalStateException(found.lastError));
        } catch (Exception error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    @Override
    protected CompletableFuture<Long> doCompaction(RawReader reader, BookKeeper bk) {
        throw new UnsupportedOperationException();
    }
}
