package avro

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/twmb/avro"

	"example.com/messages/internal/values"
)

const (
	timeLayout = "15:04:05.999999999"
	dayLength  = 24 * time.Hour
)

// options returns how values of types are written and read where the library has other values than a JSON document.
func options(document []byte) []avro.SchemaOpt {
	fields := map[string]map[string]bool{}
	var schema any
	if json.Unmarshal(document, &schema) == nil {
		addFields(schema, fields)
	}
	return []avro.SchemaOpt{
		avro.WithLaxNames(nil),
		avro.CustomType{AvroType: "record", Encode: func(value any, node *avro.SchemaNode) (any, error) {
			return value, checkNames(value, fields[node.Name])
		}},
		avro.CustomType{LogicalType: "base64", Encode: fromBase64, Decode: toBase64},
		avro.CustomType{LogicalType: "decimal", Decode: decimalText},
		avro.CustomType{LogicalType: "date", Decode: dateText},
		avro.CustomType{LogicalType: "time-millis", Encode: fromTime, Decode: timeText},
		avro.CustomType{LogicalType: "time-micros", Encode: fromTime, Decode: timeText},
		avro.CustomType{AvroType: "float", Encode: checkFloat, Decode: toDouble},
	}
}

// addFields notes the names of the fields of all records of a schema by the names of the records.
func addFields(schema any, records map[string]map[string]bool) {
	switch schema := schema.(type) {
	case []any:
		for _, branch := range schema {
			addFields(branch, records)
		}
	case map[string]any:
		if fields, isRecord := schema["fields"].([]any); isRecord {
			names := map[string]bool{}
			records[fmt.Sprint(schema["name"])] = names
			for _, field := range fields {
				field := field.(map[string]any)
				names[field["name"].(string)] = true
				addFields(field["type"], records)
			}
		}
		addFields(schema["items"], records)
		addFields(schema["values"], records)
	}
}

// A surplusError is a member that is no field. The library would leave it out.
type surplusError struct {
	name string
}

func (e *surplusError) Error() string { return e.name + " is no field" }

func checkNames(value any, fields map[string]bool) error {
	members, isObject := value.(map[string]any)
	if !isObject {
		return fmt.Errorf("must be a record, not %s", values.Shown(value))
	}
	for _, name := range values.Names(members) {
		if !fields[name] {
			return &surplusError{name}
		}
	}
	return nil
}

func fromBase64(value any, _ *avro.SchemaNode) (any, error) {
	text, isText := value.(string)
	content, err := base64.StdEncoding.DecodeString(text)
	if !isText || err != nil {
		return nil, fmt.Errorf("must be base64, not %s", values.Shown(value))
	}
	return content, nil
}

func toBase64(value any, _ *avro.SchemaNode) (any, error) {
	return base64.StdEncoding.EncodeToString(value.([]byte)), nil
}

// decimalText returns the text of a number: its digits as two's complement, of which the last ones are behind a point.
func decimalText(value any, node *avro.SchemaNode) (any, error) {
	content := value.([]byte)
	number := new(big.Int).SetBytes(content)
	if len(content) > 0 && content[0] >= 0x80 {
		number.Sub(number, new(big.Int).Lsh(big.NewInt(1), uint(len(content))*8))
	}
	digits := new(big.Int).Abs(number).String()
	if node.Scale > 0 {
		digits = strings.Repeat("0", max(node.Scale+1-len(digits), 0)) + digits
		digits = digits[:len(digits)-node.Scale] + "." + digits[len(digits)-node.Scale:]
	}
	if number.Sign() < 0 {
		return "-" + digits, nil
	}
	return digits, nil
}

func dateText(value any, _ *avro.SchemaNode) (any, error) {
	day := time.Unix(int64(value.(int32))*int64(dayLength/time.Second), 0).UTC()
	if day.Year() < 1 || day.Year() > 9999 {
		return nil, fmt.Errorf("is a day beyond the years 1 to 9999")
	}
	return day.Format(time.DateOnly), nil
}

func fromTime(value any, node *avro.SchemaNode) (any, error) {
	text, isText := value.(string)
	moment, err := time.Parse(timeLayout, text)
	if !isText || err != nil {
		return nil, fmt.Errorf("must be a time such as 12:30:00, not %s", values.Shown(value))
	}
	since := moment.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))
	if node.Type == "int" {
		return int32(since.Milliseconds()), nil
	}
	return since.Microseconds(), nil
}

func timeText(value any, _ *avro.SchemaNode) (any, error) {
	number, unit := int64(0), time.Microsecond
	switch raw := value.(type) {
	case int32:
		number, unit = int64(raw), time.Millisecond
	case int64:
		number = raw
	}
	if number < 0 || number >= int64(dayLength/unit) {
		return nil, fmt.Errorf("is no time of a day")
	}
	return time.Unix(0, number*int64(unit)).UTC().Format(timeLayout), nil
}

// checkFloat returns an error for a number that the library would write as infinite.
func checkFloat(value any, _ *avro.SchemaNode) (any, error) {
	if number, isNumber := value.(json.Number); isNumber {
		if real, err := number.Float64(); err != nil || math.Abs(real) > math.MaxFloat32 {
			return nil, fmt.Errorf("%s is beyond float", number)
		}
	}
	return value, nil
}

func toDouble(value any, _ *avro.SchemaNode) (any, error) {
	return float64(value.(float32)), nil
}
