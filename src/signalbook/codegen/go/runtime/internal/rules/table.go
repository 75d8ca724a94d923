// Package rules holds values to the rules of a JSON Schema, which are a flat table: sub-schemas are places in it.
package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A Table has the rules of one schema document. It may be used by several goroutines at once.
type Table struct {
	rules  []rule
	tracks bool // whether a rule wants to know what others have looked at
}

// A rule is one schema: its keywords, or whether all values conform.
type rule struct {
	always *bool

	Type     []string    `json:"type"`
	Values   []any       `json:"values"`
	Min      json.Number `json:"min"`
	Max      json.Number `json:"max"`
	Above    json.Number `json:"above"`
	Below    json.Number `json:"below"`
	Multiple json.Number `json:"multiple"`

	MinLength json.Number `json:"minLength"`
	MaxLength json.Number `json:"maxLength"`
	Pattern   *string     `json:"pattern"`

	Required              []string            `json:"required"`
	MinProperties         json.Number         `json:"minProperties"`
	MaxProperties         json.Number         `json:"maxProperties"`
	Properties            map[string]int      `json:"properties"`
	Patterns              []memberPattern     `json:"patterns"`
	Others                *int                `json:"others"`
	Names                 *int                `json:"names"`
	Requires              map[string][]string `json:"requires"`
	Dependents            map[string]int      `json:"dependents"`
	UnevaluatedProperties *int                `json:"unevaluatedProperties"`

	Prefix           []int       `json:"prefix"`
	Items            *int        `json:"items"`
	MinItems         json.Number `json:"minItems"`
	MaxItems         json.Number `json:"maxItems"`
	Unique           bool        `json:"unique"`
	Contains         *int        `json:"contains"`
	MinContains      json.Number `json:"minContains"`
	MaxContains      json.Number `json:"maxContains"`
	UnevaluatedItems *int        `json:"unevaluatedItems"`

	All  []int `json:"all"`
	Any  []int `json:"any"`
	One  []int `json:"one"`
	Not  *int  `json:"not"`
	If   *int  `json:"if"`
	Then *int  `json:"then"`
	Else *int  `json:"else"`
}

// A memberPattern is a pattern for names of members, and the rule for their values.
type memberPattern struct {
	pattern string
	rule    int
}

// UnmarshalJSON reads a pair.
func (m *memberPattern) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&m.pattern, &m.rule})
}

// Parse reads a table in JSON.
func Parse(text []byte) (*Table, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	table := &Table{rules: make([]rule, len(raw))}
	for place, each := range raw {
		if err := table.rules[place].read(each); err != nil {
			return nil, fmt.Errorf("rule %d: %w", place, err)
		}
		made := &table.rules[place]
		table.tracks = table.tracks || made.UnevaluatedItems != nil || made.UnevaluatedProperties != nil
	}
	return table, nil
}

func (r *rule) read(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &r.always)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(r)
}
