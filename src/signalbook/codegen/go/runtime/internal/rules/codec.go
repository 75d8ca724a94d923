package rules

import (
	"strconv"

	"example.com/messages/internal/values"
)

type codec struct {
	table *Table
}

// NewCodec returns the codec of payloads in JSON that conform to a table.
func NewCodec(text string) (values.Codec, error) {
	table, err := Parse([]byte(text))
	return codec{table}, err
}

func (c codec) Encode(root string, value any, path string) ([]byte, []values.Finding) {
	place, _ := strconv.Atoi(root)
	if findings := c.table.Check(place, value, path); len(findings) > 0 {
		return nil, findings
	}
	body, err := values.Marshal(value)
	return body, values.Failed(path, "json", err)
}

func (c codec) Decode(root string, body []byte, path string) (any, []values.Finding) {
	value, err := values.Parse(body)
	if err != nil {
		return nil, values.Failed(path, "json", err)
	}
	if findings := values.Unbounded(value, path); len(findings) > 0 {
		return nil, findings
	}
	place, _ := strconv.Atoi(root)
	return value, c.table.Check(place, value, path)
}
