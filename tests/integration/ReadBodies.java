import java.io.File;
import java.util.Arrays;
import org.apache.flink.runtime.rest.util.RestMapperUtils;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Reads answers of a REST interface as Flink's strictest clients do, and writes them again. The result must equal the
 * answer, key by key. The arguments are pairs of an answer's class and its file.
 */
public class ReadBodies {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = RestMapperUtils.getStrictObjectMapper();
        boolean failed = false;
        for (int i = 0; i < arguments.length; i += 2) {
            String name = "org.apache.flink.runtime." + arguments[i];
            try {
                JsonNode sent = mapper.readTree(new File(arguments[i + 1]));
                Object body = mapper.readValue(new File(arguments[i + 1]), Class.forName(name));
                JsonNode written = mapper.readTree(mapper.writeValueAsString(body));
                for (JsonNode tree : new JsonNode[] {sent, written}) {
                    for (JsonNode cause : tree.findParents("serialized-throwable")) {
                        // The bytes of equal objects may differ.
                        ((ObjectNode) cause).remove(Arrays.asList("serialized-throwable", "stack-trace"));
                    }
                }
                if (!sent.equals(written)) {
                    System.out.println(name + ": sent    " + sent + "\n" + name + ": written " + written);
                    failed = true;
                }
            } catch (Exception | LinkageError error) {
                System.out.println(name + ": " + error);
                failed = true;
            }
        }
        System.out.println(failed ? "some are not Flink's" : "all are Flink's");
    }
}
