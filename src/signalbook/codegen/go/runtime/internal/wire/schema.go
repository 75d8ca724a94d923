// Package wire writes and reads values in the binary encoding of Avro, by a table of types.
//
// Values are those of package values: bytes are base64, decimals, dates and times text.
package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"

	"example.com/messages/internal/values"
)

const (
	deepest = 64
	// freeValues is how many values a payload may have apart from its size: some are of no bytes at all.
	freeValues = 1_000_000
)

// A Schema has the types of one schema document. It may be used by several goroutines at once.
type Schema struct {
	nodes []node
}

// A node is one type; others are places in the table.
type node struct {
	Kind      string   `json:"kind"`
	Logical   string   `json:"logical"`
	Precision int      `json:"precision"`
	Scale     int      `json:"scale"`
	Size      int      `json:"size"`
	Symbols   []string `json:"symbols"`
	Of        int      `json:"of"`
	Branches  []int    `json:"branches"`
	Fields    []field  `json:"fields"`
}

// A field is one of a record.
type field struct {
	Name    string          `json:"name"`
	Of      int             `json:"of"`
	Default json.RawMessage `json:"default"`
}

// Parse reads a table in JSON.
func Parse(text []byte) (*Schema, error) {
	schema := &Schema{}
	err := json.Unmarshal(text, &schema.nodes)
	return schema, err
}

// An Error is what is wrong with a value or with bytes, and where.
type Error struct {
	Finding values.Finding
}

func (e *Error) Error() string { return e.Finding.String() }

func failed(path, rule, format string, arguments ...any) *Error {
	return &Error{values.Finding{Path: path, Rule: rule, Message: fmt.Sprintf(format, arguments...)}}
}

func wrong(value any, kind, path string) *Error {
	return failed(path, "type", "must be of type %s, not %s", kind, values.Shown(value))
}

func nested(path string, depth int) error {
	if depth > deepest {
		return failed(path, "depth", "nested deeper than %d levels", deepest)
	}
	return nil
}

// Encode returns a value of the type at a place in the binary encoding. The error is an *Error.
func (s *Schema) Encode(root int, value any, path string) ([]byte, error) {
	return s.appendAvro([]byte{}, root, value, path, 0)
}

// Decode returns the value in bytes. The error is an *Error.
func (s *Schema) Decode(root int, body []byte, path string) (any, error) {
	left := freeValues + 4*len(body)
	from := &reader{bytes: body, path: path, values: &left}
	value, err := s.readAvro(root, from, path, 0)
	if err == nil && from.left() > 0 {
		return nil, failed(path, "avro", "%d bytes follow the datum", from.left())
	}
	return value, err
}

// whole returns a whole number of so many bits.
func whole(value any, kind string, bits int, signed bool, path string) (*big.Int, error) {
	number, isNumber := value.(json.Number)
	decimal, isDecimal := values.ParseDecimal(number)
	if !isNumber || !isDecimal || !decimal.IsInteger() {
		return nil, wrong(value, kind, path)
	}
	found, fits := decimal.Integer()
	switch {
	case !fits:
	case signed && found.Sign() < 0: // the least one is farther from zero than the largest
		fits = new(big.Int).Not(found).BitLen() < bits
	case signed:
		fits = found.BitLen() < bits
	default:
		fits = found.Sign() >= 0 && found.BitLen() <= bits
	}
	if !fits {
		return nil, failed(path, "range", "%s is beyond %s", values.Shown(value), kind)
	}
	return found, nil
}

// real returns a float or a double.
func real(value any, kind, path string) (float64, error) {
	number, isNumber := value.(json.Number)
	if !isNumber {
		return 0, wrong(value, kind, path)
	}
	found, err := number.Float64()
	if err != nil || (kind == "float" && math.IsInf(float64(float32(found)), 0)) {
		return 0, failed(path, "range", "%s is beyond %s", values.Shown(value), kind)
	}
	return found, nil
}

// finite returns a number as JSON has it.
func finite(number float64, path string) (any, error) {
	if math.IsInf(number, 0) || math.IsNaN(number) {
		return nil, failed(path, "range", "%v has no form in JSON", number)
	}
	text, err := json.Marshal(number)
	return json.Number(text), err
}

// surplus returns an error for a member that is no field.
func surplus(members map[string]any, fields []field, path string) error {
	known := 0
	for _, field := range fields {
		if _, there := members[field.Name]; there {
			known++
		}
	}
	if known == len(members) {
		return nil
	}
	names := make(map[string]bool, len(fields))
	for _, field := range fields {
		names[field.Name] = true
	}
	first := ""
	for name := range members {
		if !names[name] && (first == "" || name < first) {
			first = name
		}
	}
	return failed(path+"/"+values.Escaped(first), "unknown", "is no field")
}
