import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/** Runs another main class for as long as standard input is open: whoever started it may die. */
public final class Attached {
    private Attached() {}

    public static void main(String[] arguments) throws Throwable {
        Thread lifeline = new Thread(Attached::endWithStandardInput, "lifeline");
        lifeline.setDaemon(true);
        lifeline.start();
        String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
        try {
            Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
        } catch (InvocationTargetException failure) {
            throw failure.getCause();
        }
    }

    private static void endWithStandardInput() {
        try {
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        } catch (IOException closed) {
            // as good as its end
        }
        Runtime.getRuntime().halt(0);
    }
}
