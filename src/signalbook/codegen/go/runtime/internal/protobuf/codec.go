// Package protobuf writes and reads payloads of Protobuf by google.golang.org/protobuf.
//
// Values are those of package values: bytes are base64, timestamps and durations text.
package protobuf

import (
	"encoding/base64"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"example.com/messages/internal/values"
)

const deepest = 64

type codec struct {
	files *protoregistry.Files
}

// Parse returns the codec of files: a FileDescriptorSet in base64.
func Parse(text string) (values.Codec, error) {
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(content, set); err != nil {
		return nil, err
	}
	files, err := protodesc.NewFiles(set)
	return &codec{files}, err
}

// message returns a message of a full name, without fields.
func (c *codec) message(name string) *dynamicpb.Message {
	descriptor, err := c.files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		panic(err) // a generated file was changed by hand
	}
	return dynamicpb.NewMessage(descriptor.(protoreflect.MessageDescriptor))
}

// Encode returns a value in the binary encoding of the message called name.
func (c *codec) Encode(name string, value any, path string) ([]byte, []values.Finding) {
	message := c.message(name)
	writer := &writer{}
	writer.message(message, value, path, 0)
	if len(writer.findings) > 0 {
		return nil, writer.findings
	}
	// A message without fields is a payload of no bytes, not one that is missing.
	body, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{}, message)
	return body, values.Failed(path, "protobuf", err)
}

// Decode returns the value in bytes, which are a message called name.
func (c *codec) Decode(name string, body []byte, path string) (any, []values.Finding) {
	message := c.message(name)
	if err := (proto.UnmarshalOptions{RecursionLimit: deepest}).Unmarshal(body, message); err != nil {
		return nil, values.Failed(path, "decode", err)
	}
	reader := &reader{left: freeValues + 4*len(body)}
	value, err := reader.message(message)
	return value, values.Failed(path, "decode", err)
}
