import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.pulsar.broker.auth.MockedPulsarServiceBaseTest;
import org.testng.IAnnotationTransformer;
import org.testng.ITestListener;
import org.testng.ITestResult;
import org.testng.SkipException;
import org.testng.annotations.IConfigurationAnnotation;
import org.testng.annotations.ITestAnnotation;

/**
 * Prints each test's verdict in a line; a test that needs a broker in its process, or says that it
 * does not apply, is skipped.
 */
public final class Verdicts implements ITestListener, IAnnotationTransformer {
    private static final long TIMEOUT_MS = Long.getLong("timeoutMs", 60_000);
    private final Map<String, Integer> runs = new HashMap<>();

    @Override
    public void transform(ITestAnnotation test, Class type, Constructor made, Method method) {
        test.setTimeOut(test.getTimeOut() == 0 ? TIMEOUT_MS : Math.min(test.getTimeOut(), TIMEOUT_MS));
        test.setRetryAnalyzer(null);
        test.setInvocationCount(1);
    }

    @Override
    public void transform(IConfigurationAnnotation setup, Class type, Constructor made, Method method) {
        setup.setTimeOut(3 * TIMEOUT_MS);
    }

    @Override
    public void onTestSuccess(ITestResult result) {
        print("PASS", result);
    }

    @Override
    public void onTestFailure(ITestResult result) {
        print(internals(result.getThrowable()) ? "SKIP" : "FAIL", result);
    }

    @Override
    public void onTestFailedWithTimeout(ITestResult result) {
        onTestFailure(result);
    }

    @Override
    public void onTestSkipped(ITestResult result) {
        onTestFailure(result);
    }

    private static boolean internals(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof SkipException || each instanceof LinkageError || each instanceof ClassNotFoundException
                    || each instanceof MockedPulsarServiceBaseTest.BrokerInternals
                    || each.getClass().getName().startsWith("org.mockito.exceptions")
                    || each instanceof ClassCastException
                            && String.valueOf(each.getMessage()).contains("org.apache.pulsar.broker.service")
                    || String.valueOf(each.getMessage()).contains("com.sun.proxy")
                    || String.valueOf(each.getMessage()).contains("jdk.proxy")) {
                return true;
            }
        }
        return false;
    }

    private synchronized void print(String verdict, ITestResult result) {
        String name = result.getTestClass().getRealClass().getSimpleName() + "." + result.getName();
        int run = runs.merge(name, 1, Integer::sum);
        String shown = result.getParameters().length == 0 ? name : name + "." + run;
        if (result.getThrowable() != null) {
            result.getThrowable().printStackTrace(System.out);
        }
        long took = result.getEndMillis() - result.getStartMillis();
        System.out.println("\n--- " + verdict + ": " + shown + " (" + took + " ms)");
    }
}
