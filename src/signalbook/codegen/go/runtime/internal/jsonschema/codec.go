// Package jsonschema writes and reads payloads in JSON, and holds them to schemas by
// github.com/santhosh-tekuri/jsonschema.
package jsonschema

import (
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.com/messages/internal/values"
)

const address = "urn:payloads"

type codec struct {
	mutex    sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

// Parse returns the codec of a document that has schemas as its definitions.
func Parse(text string) (values.Codec, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertContent()
	err = compiler.AddResource(address, document)
	return &codec{compiler: compiler, schemas: map[string]*jsonschema.Schema{}}, err
}

// schema returns the definition called name, which is compiled when it is first used.
func (c *codec) schema(name string) (*jsonschema.Schema, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if schema := c.schemas[name]; schema != nil {
		return schema, nil
	}
	schema, err := c.compiler.Compile(address + "#/$defs/" + name)
	if err == nil {
		c.schemas[name] = schema
	}
	return schema, err
}

// Encode returns a value in JSON that conforms to the schema called name.
func (c *codec) Encode(name string, value any, path string) ([]byte, []values.Finding) {
	if findings := c.check(name, value, path); len(findings) > 0 {
		return nil, findings
	}
	body, err := values.Marshal(value)
	return body, values.Failed(path, "json", err)
}

// Decode returns the value in a text in JSON that conforms to the schema called name.
func (c *codec) Decode(name string, body []byte, path string) (any, []values.Finding) {
	value, err := values.Parse(body)
	if err != nil {
		return nil, values.Failed(path, "json", err)
	}
	return value, c.check(name, value, path)
}

func (c *codec) check(name string, value any, path string) []values.Finding {
	if findings := values.Unbounded(value, path); len(findings) > 0 {
		return findings
	}
	schema, err := c.schema(name)
	if err != nil {
		return values.Failed(path, "schema", err)
	}
	return violations(schema.Validate(value), path)
}
