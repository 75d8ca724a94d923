package wire

import (
	"strconv"

	"example.com/messages/internal/values"
)

type codec struct {
	schema *Schema
}

// NewCodec returns the codec of payloads in Avro of a table of types.
func NewCodec(text string) (values.Codec, error) {
	schema, err := Parse([]byte(text))
	return codec{schema}, err
}

func (c codec) Encode(root string, value any, path string) ([]byte, []values.Finding) {
	place, _ := strconv.Atoi(root)
	body, err := c.schema.Encode(place, value, path)
	return body, findingsOf(err)
}

func (c codec) Decode(root string, body []byte, path string) (any, []values.Finding) {
	place, _ := strconv.Atoi(root)
	value, err := c.schema.Decode(place, body, path)
	return value, findingsOf(err)
}

func findingsOf(err error) []values.Finding {
	if err == nil {
		return nil
	}
	return []values.Finding{err.(*Error).Finding}
}
