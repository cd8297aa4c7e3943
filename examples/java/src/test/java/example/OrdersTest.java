package example;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class OrdersTest {
    @RegisterExtension
    static final PulsarCluster cluster = new PulsarCluster();

    @Test
    void aRefusedOrderIsSentAgain() throws Exception {
        var topic = "orders-" + UUID.randomUUID();
        try (var client = PulsarClient.builder().serviceUrl(cluster.serviceUrl()).build();
                var consumer = client.newConsumer().topic(topic).subscriptionName("billing")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                var producer = client.newProducer().topic(topic).create()) {
            cluster.fault("""
                {"operation": "SEND", "topic": "%s", "effect": "error", "code": "PersistenceError", "times": 1}"""
                .formatted(topic));
            producer.send("order 1".getBytes(UTF_8));
            var message = consumer.receive(30, TimeUnit.SECONDS);
            assertNotNull(message);
            assertEquals("order 1", new String(message.getData(), UTF_8));
        }
    }
}
