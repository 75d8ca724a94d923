using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Text.RegularExpressions;

namespace Messages
{
    /// <summary>Holds values to the rules of a schema.</summary>
    internal sealed class SchemaRules
    {
        private readonly SchemaRule[] _rules;

        internal SchemaRules(JsonValue tables)
        {
            _rules = SchemaRule.ListOf(tables);
        }

        /// <summary>Everything that the rule at a place has against a value, at most a hundred findings.</summary>
        internal IReadOnlyList<Finding> Check(int root, JsonValue value) => new RuleCheck(_rules).Check(root, value);
    }

    /// <summary>One check of one value.</summary>
    internal sealed class RuleCheck
    {
        private const int MostFindings = 100;
        private const int MostShown = 1000;
        private const int Deepest = 512;
        private readonly SchemaRule[] _rules;
        private readonly Patterns _patterns = new Patterns();
        private List<Finding> _findings = new List<Finding>();

        internal RuleCheck(SchemaRule[] rules)
        {
            _rules = rules;
        }

        internal IReadOnlyList<Finding> Check(int root, JsonValue value)
        {
            var findings = _findings;
            try
            {
                Check(root, value, ValuePath.Data, 0);
            }
            catch (FindingException error)
            {
                // Where a check cannot be made, its outcome is open: what depends on it is not said.
                findings.Clear();
                findings.Add(error.Finding);
            }
            catch (Exception error) when (error is InsufficientExecutionStackException || error is JsonFormatException)
            {
                findings.Clear();
                findings.Add(new Finding("data", "depth", "the value is nested too deep"));
            }

            return findings;
        }

        private void Report(ValuePath path, string rule, string message)
        {
            if (_findings.Count < MostFindings)
            {
                _findings.Add(new Finding(path.ToString(), rule, message));
            }
        }

        /// <summary>What of the value some rule has looked at: places of members or items.</summary>
        private HashSet<int> Check(int index, JsonValue value, ValuePath path, int depth)
        {
            var seen = new HashSet<int>();
            var rule = _rules[index];
            if (rule.Allowed.HasValue)
            {
                if (!rule.Allowed.Value)
                {
                    Report(path, "false", "no value is allowed here");
                }

                return seen;
            }

            if (depth > Deepest)
            {
                throw new FindingException(path, "depth", "the value is nested too deep");
            }

            RuntimeHelpers.EnsureSufficientExecutionStack();
            CheckPlain(rule, value, path);
            switch (value.Kind)
            {
                case JsonKind.Number:
                    CheckNumber(rule, value.Number, path);
                    break;
                case JsonKind.Text:
                    CheckText(rule, value.Content, path);
                    break;
            }

            CheckCombined(rule, value, path, depth, seen);
            if (value.Kind == JsonKind.Array)
            {
                CheckArray(rule, value.Items, path, depth, seen);
            }
            else if (value.Kind == JsonKind.Object)
            {
                CheckObject(rule, value, path, depth, seen);
            }

            return seen;
        }

        private void CheckPlain(SchemaRule rule, JsonValue value, ValuePath path)
        {
            if (rule.Types != null && !rule.Types.Any(each => IsOf(each, value)))
            {
                Report(path, "type", $"must be of type {string.Join(" or ", rule.Types)}, not {value.Shortened()}");
            }

            if (rule.Values != null && !rule.Values.Any(each => each.Equals(value)))
            {
                Report(path, "enum", $"must be one of {rule.Said("values").Shortened()}, not {value.Shortened()}");
            }
        }

        private static bool IsOf(string name, JsonValue value)
        {
            switch (name)
            {
                case "null":
                    return value.Kind == JsonKind.Null;
                case "boolean":
                    return value.Kind == JsonKind.Boolean;
                case "string":
                    return value.Kind == JsonKind.Text;
                case "array":
                    return value.Kind == JsonKind.Array;
                case "object":
                    return value.Kind == JsonKind.Object;
                case "integer":
                    return value.Kind == JsonKind.Number && value.Number.IsWhole;
                default:
                    return value.Kind == JsonKind.Number;
            }
        }

        private void CheckNumber(SchemaRule rule, JsonNumber value, ValuePath path)
        {
            if (rule.Min.HasValue && value.CompareTo(rule.Min.Value) < 0)
            {
                Report(path, "minimum", $"must be at least {rule.Said("min")}");
            }

            if (rule.Max.HasValue && value.CompareTo(rule.Max.Value) > 0)
            {
                Report(path, "maximum", $"must be at most {rule.Said("max")}");
            }

            if (rule.Above.HasValue && value.CompareTo(rule.Above.Value) <= 0)
            {
                Report(path, "exclusiveMinimum", $"must be more than {rule.Said("above")}");
            }

            if (rule.Below.HasValue && value.CompareTo(rule.Below.Value) >= 0)
            {
                Report(path, "exclusiveMaximum", $"must be less than {rule.Said("below")}");
            }

            if (rule.Multiple.HasValue && !value.IsMultipleOf(rule.Multiple.Value))
            {
                Report(path, "multipleOf", $"must be a multiple of {rule.Said("multiple")}");
            }
        }

        private void CheckText(SchemaRule rule, string value, ValuePath path)
        {
            CheckCount(rule, value.Count(each => !char.IsLowSurrogate(each)), "minLength", "maxLength", "characters", path);
            if (rule.Pattern != null && !Matches(rule.Pattern, value, path))
            {
                Report(path, "pattern", $"must match {rule.Pattern}");
            }
        }

        private void CheckCount(SchemaRule rule, int count, string least, string most, string things, ValuePath path)
        {
            if (count < rule.Bound(least, 0))
            {
                Report(path, least, $"must have at least {rule.Said(least)} {things}");
            }

            if (count > rule.Bound(most, long.MaxValue))
            {
                Report(path, most, $"must have at most {rule.Said(most)} {things}");
            }
        }

        private bool Matches(string pattern, string value, ValuePath path)
        {
            try
            {
                return _patterns.IsMatch(pattern, value);
            }
            catch (RegexMatchTimeoutException)
            {
                throw new FindingException(path, "pattern", $"takes too long to match with {pattern}");
            }
            catch (ArgumentException)
            {
                throw new FindingException(path, "pattern", $"cannot be matched with {pattern}, which .NET does not read");
            }
        }

        /// <summary>What an alternative has against a value, and what it has looked at; nothing is reported.</summary>
        private (List<Finding> Findings, HashSet<int> Seen) Attempt(int index, JsonValue value, ValuePath path, int depth)
        {
            var kept = _findings;
            _findings = new List<Finding>();
            var seen = Check(index, value, path, depth + 1);
            var found = _findings;
            _findings = kept;
            return (found, seen);
        }

        private void CheckCombined(SchemaRule rule, JsonValue value, ValuePath path, int depth, HashSet<int> seen)
        {
            foreach (var each in rule.All ?? Array.Empty<int>())
            {
                seen.UnionWith(Check(each, value, path, depth + 1));
            }

            if (rule.Any != null)
            {
                CheckAlternatives(rule.Any, "anyOf", value, path, depth, seen);
            }

            if (rule.One != null)
            {
                CheckAlternatives(rule.One, "oneOf", value, path, depth, seen);
            }

            if (rule.Not.HasValue && Attempt(rule.Not.Value, value, path, depth).Findings.Count == 0)
            {
                Report(path, "not", "is what is not allowed here");
            }

            if (rule.If.HasValue)
            {
                CheckCondition(rule, value, path, depth, seen);
            }
        }

        private void CheckCondition(SchemaRule rule, JsonValue value, ValuePath path, int depth, HashSet<int> seen)
        {
            var condition = Attempt(rule.If.Value, value, path, depth);
            var holds = condition.Findings.Count == 0;
            if (holds)
            {
                seen.UnionWith(condition.Seen);
            }

            var following = holds ? rule.Then : rule.Else;
            if (following.HasValue)
            {
                seen.UnionWith(Check(following.Value, value, path, depth + 1));
            }
        }

        private void CheckAlternatives(
            int[] places, string name, JsonValue value, ValuePath path, int depth, HashSet<int> seen)
        {
            var fitting = 0;
            List<Finding> least = null;
            foreach (var each in places)
            {
                var attempt = Attempt(each, value, path, depth);
                if (attempt.Findings.Count == 0)
                {
                    fitting++;
                    seen.UnionWith(attempt.Seen);
                }
                else if (least == null || attempt.Findings.Count < least.Count)
                {
                    least = attempt.Findings;
                }
            }

            if (fitting == 0 && least != null)
            {
                var nearest = JsonText.Shortened(string.Join("; ", least), MostShown);
                Report(path, name, $"fits none of the alternatives; of the nearest one: {nearest}");
            }
            else if (name == "oneOf" && fitting > 1)
            {
                Report(path, name, $"fits {fitting} alternatives, where one is allowed");
            }
        }

        private void CheckArray(
            SchemaRule rule, IReadOnlyList<JsonValue> items, ValuePath path, int depth, HashSet<int> seen)
        {
            CheckCount(rule, items.Count, "minItems", "maxItems", "items", path);
            if (rule.IsUnique && !IsUnique(items))
            {
                Report(path, "uniqueItems", "has an item twice");
            }

            for (var place = 0; place < items.Count; place++)
            {
                var index = place < rule.Prefix?.Length ? rule.Prefix[place] : rule.Items;
                if (index.HasValue)
                {
                    Check(index.Value, items[place], path.Below(place), depth + 1);
                    seen.Add(place);
                }
            }

            if (rule.Contains.HasValue)
            {
                CheckContained(rule, items, path, depth, seen);
            }

            for (var place = 0; rule.UnevaluatedItems.HasValue && place < items.Count; place++)
            {
                if (seen.Add(place))
                {
                    Check(rule.UnevaluatedItems.Value, items[place], path.Below(place), depth + 1);
                }
            }
        }

        private static bool IsUnique(IReadOnlyList<JsonValue> items)
        {
            var sorted = items.OrderBy(each => each, JsonOrder.Instance).ToArray();
            return sorted.Zip(sorted.Skip(1), (one, next) => one.Equals(next)).All(same => !same);
        }

        private void CheckContained(
            SchemaRule rule, IReadOnlyList<JsonValue> items, ValuePath path, int depth, HashSet<int> seen)
        {
            var count = 0;
            for (var place = 0; place < items.Count; place++)
            {
                if (Attempt(rule.Contains.Value, items[place], path, depth).Findings.Count == 0)
                {
                    count++;
                    seen.Add(place);
                }
            }

            if (count < rule.Bound("minContains", 1))
            {
                Report(path, "contains", $"must have more items of a kind than {count}");
            }

            if (count > rule.Bound("maxContains", long.MaxValue))
            {
                Report(path, "maxContains", $"must have fewer items of a kind than {count}");
            }
        }

        private void CheckObject(SchemaRule rule, JsonValue value, ValuePath path, int depth, HashSet<int> seen)
        {
            var members = value.Members;
            CheckCount(rule, members.Count, "minProperties", "maxProperties", "members", path);
            CheckRequired(rule, members, path);
            for (var place = 0; place < members.Count; place++)
            {
                if (CheckMember(rule, members[place], path.Below(members[place].Key), depth))
                {
                    seen.Add(place);
                }
            }

            foreach (var dependent in rule.Dependents)
            {
                if (members.Contains(dependent.Key))
                {
                    seen.UnionWith(Check((int)dependent.Value.AsInt64(), value, path, depth + 1));
                }
            }

            for (var place = 0; rule.UnevaluatedProperties.HasValue && place < members.Count; place++)
            {
                if (seen.Add(place))
                {
                    Check(rule.UnevaluatedProperties.Value, members[place].Value, path.Below(members[place].Key), depth + 1);
                }
            }
        }

        private void CheckRequired(SchemaRule rule, JsonMembers members, ValuePath path)
        {
            foreach (var name in rule.Required.Where(each => !members.Contains(each)))
            {
                Report(path.Below(name), "required", "is required");
            }

            foreach (var entry in rule.Requires.Where(each => members.Contains(each.Key)))
            {
                foreach (var name in entry.Value.Items.Select(each => each.AsText()).Where(each => !members.Contains(each)))
                {
                    Report(path.Below(name), "required", $"is required, as there is {entry.Key}");
                }
            }
        }

        /// <summary>Check a member by all rules for it; false if there is none.</summary>
        private bool CheckMember(SchemaRule rule, KeyValuePair<string, JsonValue> member, ValuePath path, int depth)
        {
            if (rule.Names.HasValue)
            {
                Check(rule.Names.Value, JsonValue.OfText(member.Key), path, depth + 1);
            }

            var known = false;
            if (rule.Properties.TryGetValue(member.Key, out var index))
            {
                Check((int)index.AsInt64(), member.Value, path, depth + 1);
                known = true;
            }

            foreach (var pair in rule.Patterns)
            {
                if (Matches(pair.Items[0].Content, member.Key, path))
                {
                    Check((int)pair.Items[1].AsInt64(), member.Value, path, depth + 1);
                    known = true;
                }
            }

            if (!known && rule.Others.HasValue)
            {
                Check(rule.Others.Value, member.Value, path, depth + 1);
                known = true;
            }

            return known;
        }
    }
}
