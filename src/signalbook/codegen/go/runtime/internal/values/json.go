// Package values has JSON values as all of the module handles them: nil, bool, string, json.Number,
// []any and map[string]any; numbers are as they are written.
package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Finding is one thing that is wrong with a value, and where: a path such as data/items/0/count.
type Finding struct {
	Path    string `json:"path"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

func (f Finding) String() string {
	return f.Path + ": " + f.Message + " [" + f.Rule + "]"
}

// Names returns the names of a map in their order, so that findings and messages have one.
func Names[V any](members map[string]V) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Escaped returns the name of a member as a path has it.
func Escaped(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// Parse reads one value. Of members with the same name the last one counts.
func Parse(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the text is not in UTF-8")
	}
	if hasHalf(text) {
		return nil, errors.New("a text has half a character in it")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("there is nothing")
		}
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return value, nil
}

// hasHalf tells whether an escape is one half of a character beyond 16 bits without the other, which
// encoding/json would replace.
func hasHalf(text []byte) bool {
	for place := bytes.IndexByte(text, '\\'); place >= 0 && place+1 < len(text); {
		size := 2
		if text[place+1] == 'u' {
			size = 6
			switch unit := escapedUnit(text[place:]); {
			case unit >= 0xdc00 && unit <= 0xdfff:
				return true
			case unit >= 0xd800 && unit <= 0xdbff:
				if low := escapedUnit(text[place+6:]); low < 0xdc00 || low > 0xdfff {
					return true
				}
				size = 12
			}
		}
		if place+size >= len(text) {
			return false
		}
		next := bytes.IndexByte(text[place+size:], '\\')
		if next < 0 {
			return false
		}
		place += size + next
	}
	return false
}

// escapedUnit returns what an escape such as \u00e9 at the start of a text stands for; 0 without one.
func escapedUnit(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return unit
}

// Marshal writes a value, its members in the order of their names.
func Marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

const longestShown = 100

// Shown returns the beginning of a value as JSON, for people.
func Shown(value any) string {
	text, err := Marshal(value)
	if err != nil {
		return "something without a form in JSON"
	}
	return Short(string(text), longestShown)
}

// Short returns the first characters of a text.
func Short(text string, most int) string {
	for place := range text {
		if most == 0 {
			return text[:place] + "…"
		}
		most--
	}
	return text
}

// deepest is how deep values may be nested.
const deepest = 512

// Unbounded returns what is wrong with a value that libraries would not bear: numbers out of bounds, and values that
// are nested very deep.
func Unbounded(value any, path string) []Finding { return unbounded(value, path, 0) }

func unbounded(value any, path string, depth int) (findings []Finding) {
	if depth > deepest {
		return []Finding{{path, "depth", "the value is nested too deep"}}
	}
	switch value := value.(type) {
	case json.Number:
		if !IsBounded(value) {
			return []Finding{{path, "json", Short(string(value), longestShown) + " is beyond what numbers hold"}}
		}
	case []any:
		for place, each := range value {
			findings = append(findings, unbounded(each, path+"/"+strconv.Itoa(place), depth+1)...)
		}
	case map[string]any:
		for name, each := range value {
			findings = append(findings, unbounded(each, path+"/"+Escaped(name), depth+1)...)
		}
	}
	return findings
}
