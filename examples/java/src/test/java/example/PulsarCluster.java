package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A cluster of three brokers for the tests of a class: register it as a static field. */
final class PulsarCluster implements BeforeAllCallback, AfterEachCallback, AfterAllCallback {
    private final HttpClient http = HttpClient.newHttpClient();
    private Process process;
    private String addresses;

    @Override
    public void beforeAll(ExtensionContext context) throws IOException {
        process = new ProcessBuilder("counterpoise", "up", "--faults", "--json")
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        // It prints its addresses in one line, once the brokers serve.
        addresses = process.inputReader().readLine();
        if (addresses == null) {
            throw new IOException("counterpoise up ended before it served (pip install counterpoise)");
        }
    }

    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        send(HttpRequest.newBuilder(faults()).DELETE(), 204);
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        if (process != null) {
            process.destroy();
            process.waitFor();
        }
    }

    String serviceUrl() {
        return address("service_url");
    }

    /** Asks the cluster for something to go wrong, until the test ends. */
    void fault(String body) throws Exception {
        send(HttpRequest.newBuilder(faults()).header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString(body)), 200);
    }

    private URI faults() {
        return URI.create(address("admin_url") + "/admin/v2/faults");
    }

    private String address(String name) {
        // The whole cluster's come first in the line, and those of its brokers after them.
        var found = Pattern.compile("\"" + name + "\": \"([^\"]+)\"").matcher(addresses);
        assertTrue(found.find(), addresses);
        return found.group(1);
    }

    private void send(HttpRequest.Builder request, int expected) throws Exception {
        var answer = http.send(request.build(), BodyHandlers.ofString());
        assertEquals(expected, answer.statusCode(), answer.body());
    }
}
