package rules

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.com/messages/internal/values"
)

const (
	mostFindings = 100
	deepest      = 512
	longestText  = 500
)

// Check returns everything that the rule at a place has against a value, at most a hundred findings.
func (t *Table) Check(root int, value any, path string) []values.Finding {
	checker := &checker{table: t}
	checker.check(root, value, path, 0)
	return checker.findings[:min(len(checker.findings), mostFindings)]
}

type checker struct {
	table    *Table
	findings []values.Finding
}

// seen has what some rule has looked at: names of members, places of items.
type seen struct {
	members map[string]bool
	items   map[int]bool
}

func (s *seen) add(other seen) {
	for name := range other.members {
		s.member(name)
	}
	for place := range other.items {
		s.item(place)
	}
}

func (s *seen) member(name string) {
	if s.members == nil {
		s.members = map[string]bool{}
	}
	s.members[name] = true
}

func (s *seen) item(place int) {
	if s.items == nil {
		s.items = map[int]bool{}
	}
	s.items[place] = true
}

func (c *checker) report(path, rule, message string) {
	if len(c.findings) <= mostFindings {
		c.findings = append(c.findings, values.Finding{Path: path, Rule: rule, Message: message})
	}
}

func (c *checker) check(index int, value any, path string, depth int) (found seen) {
	rule := &c.table.rules[index]
	if rule.always != nil {
		if !*rule.always {
			c.report(path, "false", "no value is allowed here")
		}
		return found
	}
	if depth > deepest {
		c.report(path, "depth", "the value is nested too deep")
		return found
	}
	c.plain(rule, value, path)
	switch value := value.(type) {
	case json.Number:
		c.number(rule, value, path)
	case string:
		c.text(rule, value, path)
	}
	c.combined(rule, value, path, depth, &found)
	switch value := value.(type) {
	case []any:
		c.array(rule, value, path, depth, &found)
	case map[string]any:
		c.object(rule, value, path, depth, &found)
	}
	return found
}

func (c *checker) plain(rule *rule, value any, path string) {
	if rule.Type != nil && !isOfAny(rule.Type, value) {
		c.report(path, "type", fmt.Sprintf("must be of type %s, not %s", strings.Join(rule.Type, " or "), values.Shown(value)))
	}
	if rule.Values == nil {
		return
	}
	own := canonical(value)
	for _, each := range rule.Values {
		if canonical(each) == own {
			return
		}
	}
	c.report(path, "enum", fmt.Sprintf("must be one of %s, not %s", values.Shown(rule.Values), values.Shown(value)))
}

func isOfAny(types []string, value any) bool {
	for _, each := range types {
		if isOf(each, value) {
			return true
		}
	}
	return false
}

func isOf(name string, value any) bool {
	switch value := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	case json.Number:
		decimal, _ := values.ParseDecimal(value)
		return name == "number" || (name == "integer" && decimal.IsInteger())
	}
	return false
}

func (c *checker) number(rule *rule, value json.Number, path string) {
	own, _ := values.ParseDecimal(value)
	bounds := []struct {
		limit      json.Number
		name, said string
		isBroken   func(order int) bool
	}{
		{rule.Min, "minimum", "at least", func(order int) bool { return order < 0 }},
		{rule.Max, "maximum", "at most", func(order int) bool { return order > 0 }},
		{rule.Above, "exclusiveMinimum", "more than", func(order int) bool { return order <= 0 }},
		{rule.Below, "exclusiveMaximum", "less than", func(order int) bool { return order >= 0 }},
	}
	for _, bound := range bounds {
		if bound.limit == "" {
			continue
		}
		if limit, _ := values.ParseDecimal(bound.limit); bound.isBroken(own.Compare(limit)) {
			c.report(path, bound.name, fmt.Sprintf("must be %s %s", bound.said, bound.limit))
		}
	}
	if rule.Multiple != "" {
		if of, _ := values.ParseDecimal(rule.Multiple); !own.IsMultiple(of) {
			c.report(path, "multipleOf", fmt.Sprintf("must be a multiple of %s", rule.Multiple))
		}
	}
}

func (c *checker) text(rule *rule, value, path string) {
	c.size(rule.MinLength, rule.MaxLength, utf8.RuneCountInString(value), "Length", "characters", path)
	if rule.Pattern != nil && !c.matches(*rule.Pattern, value, path) {
		c.report(path, "pattern", "must match "+*rule.Pattern)
	}
}

// matches tells whether a pattern is found in a text. One that regexp has no form for is a finding: nothing is known.
func (c *checker) matches(pattern, text, path string) bool {
	found, err := matches(pattern, text)
	if err != nil {
		c.report(path, "pattern", err.Error())
	}
	return found || err != nil
}

func (c *checker) size(least, most json.Number, size int, what, of, path string) {
	if float64(size) < limit(least, 0) {
		c.report(path, "min"+what, fmt.Sprintf("must have at least %s %s", least, of))
	}
	if float64(size) > limit(most, math.Inf(1)) {
		c.report(path, "max"+what, fmt.Sprintf("must have at most %s %s", most, of))
	}
}

func limit(number json.Number, otherwise float64) float64 {
	if number == "" {
		return otherwise
	}
	found, _ := number.Float64()
	return found
}

// attempt returns what a rule has against a value, and what it has looked at; nothing is reported.
func (c *checker) attempt(index int, value any, path string, depth int) ([]values.Finding, seen) {
	kept := c.findings
	c.findings = nil
	found := c.check(index, value, path, depth+1)
	against := c.findings
	c.findings = kept
	return against, found
}

// below checks the same value by another rule.
func (c *checker) below(index int, value any, path string, depth int, found *seen) {
	looked := c.check(index, value, path, depth+1)
	if c.table.tracks {
		found.add(looked)
	}
}

func (c *checker) combined(rule *rule, value any, path string, depth int, found *seen) {
	for _, each := range rule.All {
		c.below(each, value, path, depth, found)
	}
	if rule.Any != nil {
		c.alternatives(rule.Any, "anyOf", value, path, depth, found)
	}
	if rule.One != nil {
		c.alternatives(rule.One, "oneOf", value, path, depth, found)
	}
	if rule.Not != nil {
		if against, _ := c.attempt(*rule.Not, value, path, depth); len(against) == 0 {
			c.report(path, "not", "is what is not allowed here")
		}
	}
	if rule.If == nil {
		return
	}
	following := rule.Then
	if against, looked := c.attempt(*rule.If, value, path, depth); len(against) == 0 {
		found.add(looked)
	} else {
		following = rule.Else
	}
	if following != nil {
		c.below(*following, value, path, depth, found)
	}
}

func (c *checker) alternatives(indices []int, name string, value any, path string, depth int, found *seen) {
	fitting := 0
	var least []values.Finding
	for _, each := range indices {
		against, looked := c.attempt(each, value, path, depth)
		if len(against) == 0 {
			fitting++
			found.add(looked)
		} else if least == nil || len(against) < len(least) {
			least = against
		}
	}
	switch {
	case fitting == 0 && least != nil:
		text := values.Short(fmt.Sprint(least), longestText)
		c.report(path, name, "fits none of the alternatives; of the nearest one: "+text)
	case name == "oneOf" && fitting > 1:
		c.report(path, name, fmt.Sprintf("fits %d alternatives, where one is allowed", fitting))
	}
}

func (c *checker) array(rule *rule, items []any, path string, depth int, found *seen) {
	c.size(rule.MinItems, rule.MaxItems, len(items), "Items", "items", path)
	if rule.Unique && !isUnique(items) {
		c.report(path, "uniqueItems", "has an item twice")
	}
	for place, item := range items {
		index := rule.Items
		if place < len(rule.Prefix) {
			index = &rule.Prefix[place]
		}
		if index != nil {
			c.check(*index, item, path+"/"+strconv.Itoa(place), depth+1)
			if c.table.tracks {
				found.item(place)
			}
		}
	}
	if rule.Contains != nil {
		c.contained(rule, items, path, depth, found)
	}
	if rule.UnevaluatedItems == nil {
		return
	}
	for place, item := range items {
		if !found.items[place] {
			found.item(place)
			c.check(*rule.UnevaluatedItems, item, path+"/"+strconv.Itoa(place), depth+1)
		}
	}
}

func (c *checker) contained(rule *rule, items []any, path string, depth int, found *seen) {
	count := 0
	for place, item := range items {
		if against, _ := c.attempt(*rule.Contains, item, path, depth); len(against) == 0 {
			count++
			found.item(place)
		}
	}
	if float64(count) < limit(rule.MinContains, 1) {
		c.report(path, "contains", fmt.Sprintf("must have more items of a kind than %d", count))
	}
	if float64(count) > limit(rule.MaxContains, math.Inf(1)) {
		c.report(path, "maxContains", fmt.Sprintf("must have fewer items of a kind than %d", count))
	}
}
