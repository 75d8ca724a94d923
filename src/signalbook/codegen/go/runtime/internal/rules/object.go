package rules

import (
	"encoding/json"
	"strings"

	"example.com/messages/internal/values"
)

func (c *checker) object(rule *rule, members map[string]any, path string, depth int, found *seen) {
	c.counted(rule, members, path)
	for _, name := range values.Names(members) {
		c.member(rule, name, members[name], path+"/"+values.Escaped(name), depth, found)
	}
	for _, name := range values.Names(rule.Dependents) {
		if _, there := members[name]; there {
			c.below(rule.Dependents[name], members, path, depth, found)
		}
	}
	if rule.UnevaluatedProperties == nil {
		return
	}
	for _, name := range values.Names(members) {
		if !found.members[name] {
			found.member(name)
			c.check(*rule.UnevaluatedProperties, members[name], path+"/"+values.Escaped(name), depth+1)
		}
	}
}

// member checks one member by its name, and its value by each rule that is for it.
func (c *checker) member(rule *rule, name string, value any, path string, depth int, found *seen) {
	if rule.Names != nil {
		c.check(*rule.Names, name, path, depth+1)
	}
	var indices []int
	if index, declared := rule.Properties[name]; declared {
		indices = append(indices, index)
	}
	for _, each := range rule.Patterns {
		if c.matches(each.pattern, name, path) {
			indices = append(indices, each.rule)
		}
	}
	if len(indices) == 0 && rule.Others != nil {
		indices = append(indices, *rule.Others)
	}
	for _, index := range indices {
		c.check(index, value, path, depth+1)
		if c.table.tracks {
			found.member(name)
		}
	}
}

func (c *checker) counted(rule *rule, members map[string]any, path string) {
	for _, name := range rule.Required {
		if _, there := members[name]; !there {
			c.report(path+"/"+values.Escaped(name), "required", "is required")
		}
	}
	for _, name := range values.Names(rule.Requires) {
		if _, there := members[name]; !there {
			continue
		}
		for _, needed := range rule.Requires[name] {
			if _, there := members[needed]; !there {
				c.report(path+"/"+values.Escaped(needed), "required", "is required, as there is "+name)
			}
		}
	}
	c.size(rule.MinProperties, rule.MaxProperties, len(members), "Properties", "members", path)
}

func isUnique(items []any) bool {
	found := make(map[string]bool, len(items))
	for _, each := range items {
		text := canonical(each)
		if found[text] {
			return false
		}
		found[text] = true
	}
	return true
}

// canonical returns the same text for values that are the same; 1 and 1.0 are.
func canonical(value any) string {
	var text strings.Builder
	writeCanonical(&text, value)
	return text.String()
}

func writeCanonical(text *strings.Builder, value any) {
	switch value := value.(type) {
	case json.Number:
		decimal, _ := values.ParseDecimal(value)
		text.WriteString(decimal.String())
	case []any:
		text.WriteByte('[')
		for _, each := range value {
			writeCanonical(text, each)
			text.WriteByte(',')
		}
		text.WriteByte(']')
	case map[string]any:
		text.WriteByte('{')
		for _, name := range values.Names(value) {
			writeCanonical(text, name)
			text.WriteByte(':')
			writeCanonical(text, value[name])
			text.WriteByte(',')
		}
		text.WriteByte('}')
	default:
		plain, _ := json.Marshal(value)
		text.Write(plain)
	}
}
