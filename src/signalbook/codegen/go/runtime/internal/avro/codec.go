// Package avro writes and reads payloads of Avro by github.com/twmb/avro.
//
// Values are those of package values: bytes are base64, decimals, dates and times text.
package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/avro"

	"example.com/messages/internal/values"
	"example.com/messages/signalbook"
)

type codec struct {
	schemas map[string]*avro.Schema
}

// Parse returns the codec of schemas: an object in JSON that has them by name.
func Parse(text string) (values.Codec, error) {
	var documents map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &documents); err != nil {
		return nil, err
	}
	made := codec{map[string]*avro.Schema{}}
	for name, document := range documents {
		schema, err := avro.Parse(string(document), options(document)...)
		if err != nil {
			return nil, err
		}
		made.schemas[name] = schema
	}
	return made, nil
}

// Encode returns a value of the schema called name in the binary encoding.
func (c codec) Encode(name string, value any, path string) ([]byte, []values.Finding) {
	body, err := c.schemas[name].AppendEncode([]byte{}, value)
	if err == nil {
		return body, nil
	}
	var mismatch *avro.SemanticError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		path += "/" + strings.ReplaceAll(mismatch.Field, ".", "/")
	}
	var surplus *surplusError
	if errors.As(err, &surplus) {
		path += "/" + values.Escaped(surplus.name)
	}
	return nil, values.Failed(path, "avro", err)
}

// Decode returns the value in bytes, which are of the schema called name.
func (c codec) Decode(name string, body []byte, path string) (any, []values.Finding) {
	var native any
	rest, err := c.schemas[name].Decode(body, &native)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the datum", len(rest))
	}
	if err != nil {
		return nil, values.Failed(path, "decode", err)
	}
	value, err := signalbook.Convert[any](native)
	var unfit *signalbook.ConversionError
	if errors.As(err, &unfit) {
		for place := range unfit.Findings {
			unfit.Findings[place].Path = path + unfit.Findings[place].Path
		}
		return nil, unfit.Findings
	}
	return value, values.Failed(path, "decode", err)
}
