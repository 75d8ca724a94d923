import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

/** Holds values to the rules of a schema; sub-schemas are places in the table of rules. */
final class Rules {
  private static final int MOST_FINDINGS = 100;
  private static final int DEEPEST = 512;
  private static final Map<String, Pattern> PATTERNS = new ConcurrentHashMap<>();

  private final JsonNode rules;
  private List<Messages.Finding> findings = new ArrayList<>();

  private Rules(JsonNode rules) {
    this.rules = rules;
  }

  /** Everything that a schema has against a value, at most a hundred findings. */
  static List<Messages.Finding> check(JsonNode rules, int root, JsonNode value, String path) {
    Rules checker = new Rules(rules);
    checker.check(root, value, path, 0);
    int count = Math.min(checker.findings.size(), MOST_FINDINGS);
    return List.copyOf(checker.findings.subList(0, count));
  }

  private void report(String path, String rule, String message) {
    if (findings.size() <= MOST_FINDINGS) {
      findings.add(new Messages.Finding(path, rule, message));
    }
  }

  /** What of the value some rule has looked at: names of members, places of items. */
  private Set<Object> check(int index, JsonNode value, String path, int depth) {
    Set<Object> seen = new HashSet<>();
    JsonNode rule = rules.get(index);
    if (rule.isBoolean()) {
      if (!rule.booleanValue()) {
        report(path, "false", "no value is allowed here");
      }
      return seen;
    }
    if (depth > DEEPEST) {
      report(path, "depth", "the value is nested too deep");
      return seen;
    }
    plain(rule, value, path);
    if (value.isNumber()) {
      number(rule, value.decimalValue(), path);
    }
    if (value.isTextual()) {
      text(rule, value.textValue(), path);
    }
    combined(rule, value, path, depth, seen);
    if (value.isArray()) {
      array(rule, value, path, depth, seen);
    }
    if (value.isObject()) {
      object(rule, value, path, depth, seen);
    }
    return seen;
  }

  private void plain(JsonNode rule, JsonNode value, String path) {
    if (rule.has("type") && !any(rule.get("type"), each -> isOf(each.textValue(), value))) {
      report(path, "type", "must be of type " + rule.get("type") + ", not " + shown(value));
    }
    if (rule.has("values") && !any(rule.get("values"), each -> equal(each, value))) {
      report(path, "enum", "must be one of " + rule.get("values") + ", not " + shown(value));
    }
  }

  private static boolean any(JsonNode items, java.util.function.Predicate<JsonNode> test) {
    for (JsonNode each : items) {
      if (test.test(each)) {
        return true;
      }
    }
    return false;
  }

  private void number(JsonNode rule, BigDecimal value, String path) {
    if (rule.has("min") && value.compareTo(rule.get("min").decimalValue()) < 0) {
      report(path, "minimum", "must be at least " + rule.get("min"));
    }
    if (rule.has("max") && value.compareTo(rule.get("max").decimalValue()) > 0) {
      report(path, "maximum", "must be at most " + rule.get("max"));
    }
    if (rule.has("above") && value.compareTo(rule.get("above").decimalValue()) <= 0) {
      report(path, "exclusiveMinimum", "must be more than " + rule.get("above"));
    }
    if (rule.has("below") && value.compareTo(rule.get("below").decimalValue()) >= 0) {
      report(path, "exclusiveMaximum", "must be less than " + rule.get("below"));
    }
    if (rule.has("multiple") && value.remainder(rule.get("multiple").decimalValue()).signum() != 0) {
      report(path, "multipleOf", "must be a multiple of " + rule.get("multiple"));
    }
  }

  private void text(JsonNode rule, String value, String path) {
    int length = value.codePointCount(0, value.length());
    if (length < bound(rule, "minLength", 0)) {
      report(path, "minLength", "must have at least " + rule.get("minLength") + " characters");
    }
    if (length > bound(rule, "maxLength", Long.MAX_VALUE)) {
      report(path, "maxLength", "must have at most " + rule.get("maxLength") + " characters");
    }
    if (rule.has("pattern") && !matches(rule.get("pattern").textValue(), value)) {
      report(path, "pattern", "must match " + rule.get("pattern").textValue());
    }
  }

  private static long bound(JsonNode rule, String name, long otherwise) {
    return rule.has(name) ? rule.get(name).longValue() : otherwise;
  }

  private record Attempt(List<Messages.Finding> findings, Set<Object> seen) {}

  /** What an alternative has against a value, and what it has looked at; nothing is reported. */
  private Attempt attempt(int index, JsonNode value, String path, int depth) {
    List<Messages.Finding> kept = findings;
    findings = new ArrayList<>();
    Set<Object> seen = check(index, value, path, depth + 1);
    Attempt made = new Attempt(findings, seen);
    findings = kept;
    return made;
  }

  private void combined(JsonNode rule, JsonNode value, String path, int depth, Set<Object> seen) {
    for (JsonNode each : rule.path("all")) {
      seen.addAll(check(each.intValue(), value, path, depth + 1));
    }
    if (rule.has("any")) {
      alternatives(rule.get("any"), "anyOf", value, path, depth, seen);
    }
    if (rule.has("one")) {
      alternatives(rule.get("one"), "oneOf", value, path, depth, seen);
    }
    if (rule.has("not") && attempt(rule.get("not").intValue(), value, path, depth).findings.isEmpty()) {
      report(path, "not", "is what is not allowed here");
    }
    if (!rule.has("if")) {
      return;
    }
    Attempt condition = attempt(rule.get("if").intValue(), value, path, depth);
    boolean holds = condition.findings.isEmpty();
    if (holds) {
      seen.addAll(condition.seen);
    }
    JsonNode following = rule.get(holds ? "then" : "else");
    if (following != null) {
      seen.addAll(check(following.intValue(), value, path, depth + 1));
    }
  }

  private void alternatives(
      JsonNode indices, String name, JsonNode value, String path, int depth, Set<Object> seen) {
    int fitting = 0;
    Attempt least = null;
    for (JsonNode each : indices) {
      Attempt attempt = attempt(each.intValue(), value, path, depth);
      if (attempt.findings.isEmpty()) {
        fitting += 1;
        seen.addAll(attempt.seen);
      } else if (least == null || attempt.findings.size() < least.findings.size()) {
        least = attempt;
      }
    }
    if (fitting == 0 && least != null) {
      report(path, name, "fits none of the alternatives; of the nearest one: " + least.findings);
    } else if (name.equals("oneOf") && fitting > 1) {
      report(path, name, "fits " + fitting + " alternatives, where one is allowed");
    }
  }

  private void array(JsonNode rule, JsonNode value, String path, int depth, Set<Object> seen) {
    if (value.size() < bound(rule, "minItems", 0)) {
      report(path, "minItems", "must have at least " + rule.get("minItems") + " items");
    }
    if (value.size() > bound(rule, "maxItems", Long.MAX_VALUE)) {
      report(path, "maxItems", "must have at most " + rule.get("maxItems") + " items");
    }
    if (rule.has("unique") && !isUnique(value)) {
      report(path, "uniqueItems", "has an item twice");
    }
    for (int place = 0; place < value.size(); place++) {
      JsonNode index = rule.path("prefix").get(place);
      index = index == null ? rule.get("items") : index;
      if (index != null) {
        check(index.intValue(), value.get(place), path + "/" + place, depth + 1);
        seen.add(place);
      }
    }
    if (rule.has("contains")) {
      contained(rule, value, path, depth, seen);
    }
    for (int place = 0; rule.has("unevaluatedItems") && place < value.size(); place++) {
      if (seen.add(place)) {
        check(rule.get("unevaluatedItems").intValue(), value.get(place), path + "/" + place, depth + 1);
      }
    }
  }

  private void contained(JsonNode rule, JsonNode value, String path, int depth, Set<Object> seen) {
    int count = 0;
    for (int place = 0; place < value.size(); place++) {
      if (attempt(rule.get("contains").intValue(), value.get(place), path, depth).findings.isEmpty()) {
        count += 1;
        seen.add(place);
      }
    }
    if (count < bound(rule, "minContains", 1)) {
      report(path, "contains", "must have more items of a kind than " + count);
    }
    if (count > bound(rule, "maxContains", Long.MAX_VALUE)) {
      report(path, "maxContains", "must have fewer items of a kind than " + count);
    }
  }

  private void object(JsonNode rule, JsonNode value, String path, int depth, Set<Object> seen) {
    counted(rule, value, path);
    for (Map.Entry<String, JsonNode> member : value.properties()) {
      String name = member.getKey();
      String below = path + "/" + escaped(name);
      if (rule.has("names")) {
        JsonNode asText = com.fasterxml.jackson.databind.node.TextNode.valueOf(name);
        check(rule.get("names").intValue(), asText, below, depth + 1);
      }
      List<JsonNode> indices = new ArrayList<>();
      if (rule.path("properties").has(name)) {
        indices.add(rule.get("properties").get(name));
      }
      for (JsonNode pair : rule.path("patterns")) {
        if (matches(pair.get(0).textValue(), name)) {
          indices.add(pair.get(1));
        }
      }
      if (indices.isEmpty() && rule.has("others")) {
        indices.add(rule.get("others"));
      }
      for (JsonNode index : indices) {
        check(index.intValue(), member.getValue(), below, depth + 1);
        seen.add(name);
      }
    }
    for (Map.Entry<String, JsonNode> dependent : rule.path("dependents").properties()) {
      if (value.has(dependent.getKey())) {
        seen.addAll(check(dependent.getValue().intValue(), value, path, depth + 1));
      }
    }
    if (rule.has("unevaluatedProperties")) {
      int index = rule.get("unevaluatedProperties").intValue();
      for (Map.Entry<String, JsonNode> member : value.properties()) {
        if (seen.add(member.getKey())) {
          check(index, member.getValue(), path + "/" + escaped(member.getKey()), depth + 1);
        }
      }
    }
  }

  private void counted(JsonNode rule, JsonNode value, String path) {
    for (JsonNode name : rule.path("required")) {
      if (!value.has(name.textValue())) {
        report(path + "/" + escaped(name.textValue()), "required", "is required");
      }
    }
    for (Map.Entry<String, JsonNode> entry : rule.path("requires").properties()) {
      for (JsonNode needed : value.has(entry.getKey()) ? entry.getValue() : rule.path("")) {
        if (!value.has(needed.textValue())) {
          String below = path + "/" + escaped(needed.textValue());
          report(below, "required", "is required, as there is " + entry.getKey());
        }
      }
    }
    if (value.size() < bound(rule, "minProperties", 0)) {
      report(path, "minProperties", "must have at least " + rule.get("minProperties") + " members");
    }
    if (value.size() > bound(rule, "maxProperties", Long.MAX_VALUE)) {
      report(path, "maxProperties", "must have at most " + rule.get("maxProperties") + " members");
    }
  }

  private static String escaped(String name) {
    return name.replace("~", "~0").replace("/", "~1");
  }

  private static boolean matches(String pattern, String value) {
    return PATTERNS.computeIfAbsent(pattern, Rules::compiled).matcher(value).find();
  }

  /** A pattern of JSON Schema (ECMA-262) as one of Java's, where the two differ. */
  private static Pattern compiled(String pattern) {
    StringBuilder made = new StringBuilder();
    boolean inClass = false;
    for (int place = 0; place < pattern.length(); place++) {
      char character = pattern.charAt(place);
      if (character == '\\' && place + 1 < pattern.length()) {
        boolean braced = pattern.startsWith("\\u{", place);
        made.append('\\').append(braced ? 'x' : pattern.charAt(place + 1));
        place += 1;
      } else if (inClass && (character == '[' || character == '&')) {
        made.append('\\').append(character);
      } else if (!inClass && character == '$') {
        made.append("\\z"); // Java's also matches before a line break at the end
      } else {
        inClass = inClass ? character != ']' : character == '[';
        made.append(character);
      }
    }
    return Pattern.compile(made.toString(), Pattern.UNIX_LINES);
  }

  private static boolean isOf(String name, JsonNode value) {
    return switch (name) {
      case "null" -> value.isNull();
      case "boolean" -> value.isBoolean();
      case "string" -> value.isTextual();
      case "array" -> value.isArray();
      case "object" -> value.isObject();
      case "integer" -> value.isNumber() && value.decimalValue().stripTrailingZeros().scale() <= 0;
      default -> value.isNumber();
    };
  }

  /** Whether two values are the same; 1 and 1.0 are. */
  private static boolean equal(JsonNode left, JsonNode right) {
    return canonical(left).equals(canonical(right));
  }

  private static boolean isUnique(JsonNode items) {
    Set<String> found = new HashSet<>();
    for (JsonNode each : items) {
      if (!found.add(canonical(each))) {
        return false;
      }
    }
    return true;
  }

  private static String canonical(JsonNode value) {
    if (value.isNumber()) {
      BigDecimal number = value.decimalValue();
      return number.signum() == 0 ? "0" : number.stripTrailingZeros().toString();
    }
    if (value.isArray()) {
      StringBuilder made = new StringBuilder("[");
      value.forEach(each -> made.append(canonical(each)).append(','));
      return made.append(']').toString();
    }
    if (value.isObject()) {
      Map<String, String> members = new TreeMap<>();
      for (Map.Entry<String, JsonNode> each : value.properties()) {
        JsonNode name = com.fasterxml.jackson.databind.node.TextNode.valueOf(each.getKey());
        members.put(name.toString(), canonical(each.getValue()));
      }
      return members.toString();
    }
    return value.toString();
  }

  private static String shown(JsonNode value) {
    String text = value.toString();
    return text.length() <= 100 ? text : text.substring(0, 99) + "…";
  }
}
