package signalbook

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A template is a text with placeholders: a URI template of level 1 (RFC 6570).
type template struct {
	Text      string   `json:"text"`
	Names     []string `json:"names"`
	Literals  []string `json:"literals"`
	Encoded   bool     `json:"encoded"`
	Separator string   `json:"separator"`
}

// missing returns the names of placeholders that a context has no value for, each once.
func (t *template) missing(context map[string]string) []string {
	var names []string
	for _, name := range t.Names {
		if context[name] == "" && !contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func contains(texts []string, text string) bool {
	for _, each := range texts {
		if each == text {
			return true
		}
	}
	return false
}

// expand returns the text with values in it; false if it would be read as other values.
func (t *template) expand(context map[string]string) (string, bool) {
	text := t.Literals[0]
	for place, name := range t.Names {
		text += t.quoted(context[name]) + t.Literals[place+1]
	}
	// Values with the separator in them would come out as other values at the consumer.
	read, fits := t.match(text)
	for _, name := range t.Names {
		fits = fits && read[name] == context[name]
	}
	return text, fits
}

// isWhole tells whether there is nothing beside one placeholder.
func (t *template) isWhole() bool {
	return len(t.Literals) == 2 && t.Literals[0] == "" && t.Literals[1] == ""
}

func (t *template) quoted(value string) string {
	if !t.Encoded {
		return value
	}
	text := percentEncoded(value, isUnreserved)
	if t.isWhole() {
		return text
	}
	return strings.ReplaceAll(text, t.Separator, fmt.Sprintf("%%%02X", t.Separator))
}

func isUnreserved(character byte) bool {
	return character == '_' || character == '.' || character == '~' || character == '-' || isAlphanumeric(character)
}

func isAlphanumeric(character byte) bool {
	return '0' <= character && character <= '9' || 'A' <= character && character <= 'Z' || 'a' <= character && character <= 'z'
}

func percentEncoded(text string, isPlain func(byte) bool) string {
	var made strings.Builder
	for place := 0; place < len(text); place++ {
		if isPlain(text[place]) {
			made.WriteByte(text[place])
		} else {
			fmt.Fprintf(&made, "%%%02X", text[place])
		}
	}
	return made.String()
}

// match returns what the placeholders stand for in a text; false if it does not fit.
func (t *template) match(text string) (map[string]string, bool) {
	rest, fits := strings.CutPrefix(text, t.Literals[0])
	if !fits {
		return nil, false
	}
	found := make(map[string]string, len(t.Names))
	for index, name := range t.Names {
		literal := t.Literals[index+1]
		end := t.endOf(rest, literal, index == len(t.Names)-1)
		if end <= 0 {
			return nil, false
		}
		raw := rest[:end]
		if !t.isWhole() && strings.Contains(raw, t.Separator) {
			return nil, false
		}
		value := raw
		if t.Encoded {
			value = percentDecoded(raw)
		}
		if before, known := found[name]; known && before != value {
			return nil, false
		}
		found[name] = value
		rest = rest[end+len(literal):]
	}
	return found, rest == ""
}

// endOf returns where a placeholder ends that a literal follows; it is of one byte at least. Without an end it is -1.
func (t *template) endOf(rest, literal string, isLast bool) int {
	if isLast {
		if !strings.HasSuffix(rest, literal) {
			return -1
		}
		return len(rest) - len(literal)
	}
	if rest == "" {
		return -1
	}
	place := strings.Index(rest[1:], literal)
	if place < 0 {
		return -1
	}
	return place + 1
}

// percentDecoded returns a text without percent-encoding; as it is, if it is not in UTF-8 then.
func percentDecoded(text string) string {
	var made []byte
	for place := 0; place < len(text); place++ {
		if text[place] == '%' && place+2 < len(text) {
			if pair, err := hex.DecodeString(text[place+1 : place+3]); err == nil {
				made = append(made, pair...)
				place += 2
				continue
			}
		}
		made = append(made, text[place])
	}
	if !utf8.Valid(made) {
		return text
	}
	return string(made)
}
