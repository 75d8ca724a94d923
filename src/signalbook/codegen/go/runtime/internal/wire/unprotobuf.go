package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.com/messages/internal/values"
)

// readMessage reads the fields of a message, or of what stands for one.
func (s *Schema) readMessage(index int, from *reader, path string, depth int) (any, error) {
	node := &s.nodes[index]
	if err := nested(path, depth); err != nil {
		return nil, err
	}
	switch node.Kind {
	case "timestamp", "duration":
		return readTime(node.Kind, from, path)
	case "wrapper":
		found, err := s.readFields([]field{wrapped(node)}, nil, from, path, depth)
		return found["value"], err
	}
	found, err := s.readFields(node.Fields, node.places, from, path, depth)
	if err != nil {
		return nil, err
	}
	for _, field := range node.Fields {
		if _, there := found[field.Name]; field.Label == "required" && !there {
			return nil, failed(path+"/"+values.Escaped(field.Name), "required", "is required")
		}
	}
	return found, nil
}

// readFields reads what fields there are; places has those of many by their numbers.
func (s *Schema) readFields(
	fields []field, places map[uint64]int, from *reader, path string, depth int,
) (map[string]any, error) {
	if err := from.count(len(fields), path); err != nil {
		return nil, err
	}
	found := make(map[string]any, len(fields))
	for place := range fields {
		field := &fields[place]
		switch field.Label {
		case "map":
			found[field.Name] = map[string]any{}
		case "repeated", "packed":
			found[field.Name] = []any{}
		case "implicit":
			zero, err := s.zero(field.Of, from, path, depth)
			if err != nil {
				return nil, err
			}
			found[field.Name] = zero
		}
	}
	for from.left() > 0 {
		tag, err := from.varint()
		if err != nil {
			return nil, err
		}
		known := false
		if place := placeOf(fields, places, tag>>3); place >= 0 {
			known, err = s.readField(&fields[place], fields, tag&7, from, found, path, depth)
		}
		if err == nil && !known {
			err = skip(tag&7, from, path)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func placeOf(fields []field, places map[uint64]int, number uint64) int {
	if place, there := places[number]; there {
		return place
	}
	for place := 0; places == nil && place < len(fields); place++ {
		if fields[place].Number == number {
			return place
		}
	}
	return -1
}

// readField reads one occurrence of a field; false for one of another wire type, which is none of it.
func (s *Schema) readField(
	field *field, fields []field, kind uint64, from *reader, found map[string]any, path string, depth int,
) (bool, error) {
	below := path + "/" + values.Escaped(field.Name)
	expected := wireType(s.nodes[field.Of].Kind)
	if err := from.count(1, below); err != nil {
		return false, err
	}
	switch {
	case field.Label == "map" && kind == sizedType:
		return true, s.readEntry(field, from, found, below, depth)
	case field.Label == "map":
		return false, nil
	case field.Label == "repeated" || field.Label == "packed":
		if kind != expected && kind != sizedType {
			return false, nil
		}
		items, err := s.readItems(field.Of, found[field.Name].([]any), kind != expected, from, below, depth)
		found[field.Name] = items
		return true, err
	case kind != expected:
		return false, nil
	}
	value, err := s.readSingle(field.Of, from, below, depth)
	if err != nil {
		return false, err
	}
	// The last one counts, and of several that exclude each other too.
	for _, other := range fields {
		if field.OneOf != "" && other.OneOf == field.OneOf {
			delete(found, other.Name)
		}
	}
	found[field.Name] = value
	return true, nil
}

// readItems adds one item, or all that are packed into one occurrence.
func (s *Schema) readItems(
	index int, items []any, packed bool, from *reader, path string, depth int,
) ([]any, error) {
	if !packed {
		item, err := s.readSingle(index, from, path, depth)
		return append(items, item), err
	}
	inner, err := from.inner(path)
	for err == nil && inner.left() > 0 {
		var item any
		item, err = s.readSingle(index, inner, path, depth)
		items = append(items, item)
	}
	return items, err
}

func (s *Schema) readEntry(entry *field, from *reader, found map[string]any, path string, depth int) error {
	inner, err := from.inner(path)
	if err != nil {
		return err
	}
	parts := []field{
		{Name: "key", Number: 1, Of: entry.Key, Label: "implicit"},
		{Name: "value", Number: 2, Of: entry.Of, Label: "implicit"},
	}
	pair, err := s.readFields(parts, nil, inner, path, depth)
	if err != nil {
		return err
	}
	found[entry.Name].(map[string]any)[fmt.Sprint(pair["key"])] = pair["value"]
	return nil
}

func readTime(kind string, from *reader, path string) (any, error) {
	var parts [2]int64
	for from.left() > 0 {
		tag, err := from.varint()
		if err != nil {
			return nil, err
		}
		if tag == 1<<3 || tag == 2<<3 {
			var part uint64
			part, err = from.varint()
			parts[tag>>3-1] = int64(part)
		} else {
			err = skip(tag&7, from, path)
		}
		if err != nil {
			return nil, err
		}
	}
	if kind == "duration" {
		return durationText(parts[0], parts[1]), nil
	}
	if parts[0] < firstSecond || parts[0] > lastSecond {
		return nil, failed(path, "range", "is a time beyond the years 1 to 9999")
	}
	return timestamp(time.Unix(parts[0], parts[1]), path)
}

func (s *Schema) readSingle(index int, from *reader, path string, depth int) (any, error) {
	node := &s.nodes[index]
	if integerBits(node.Kind) > 0 {
		return readInteger(node.Kind, from)
	}
	switch node.Kind {
	case "bool":
		number, err := from.varint()
		return number != 0, err
	case "float", "double":
		return from.real(node.Kind, path)
	case "string":
		return from.text(false, path)
	case "bytes":
		content, err := from.sized(false)
		return base64.StdEncoding.EncodeToString(content), err
	case "enum":
		number, err := from.varint()
		return enumName(node, int32(number)), err
	}
	inner, err := from.inner(path)
	if err != nil {
		return nil, err
	}
	return s.readMessage(index, inner, path, depth+1)
}

func enumName(node *node, number int32) any {
	for _, each := range node.Numbers {
		if each.number == number {
			return each.name
		}
	}
	return json.Number(strconv.FormatInt(int64(number), 10))
}

func readInteger(kind string, from *reader) (any, error) {
	var number uint64
	var err error
	switch wireType(kind) {
	case fixed64Type:
		number, err = from.fixed64()
	case fixed32Type:
		var small uint32
		small, err = from.fixed32()
		number = uint64(small)
	default:
		number, err = from.varint()
		if strings.HasPrefix(kind, "sint") {
			number = uint64(unzigzag(number))
		}
	}
	small := integerBits(kind) == 32
	switch {
	case isUnsigned(kind) && small:
		number = uint64(uint32(number))
	case small:
		number = uint64(int64(int32(number)))
	}
	if isUnsigned(kind) {
		return json.Number(strconv.FormatUint(number, 10)), err
	}
	return json.Number(strconv.FormatInt(int64(number), 10)), err
}

// zero returns what a field without presence is if it is not sent.
func (s *Schema) zero(index int, from *reader, path string, depth int) (any, error) {
	node := &s.nodes[index]
	switch node.Kind {
	case "bool":
		return false, nil
	case "string", "bytes":
		return "", nil
	case "enum":
		return enumName(node, 0), nil
	}
	if wireType(node.Kind) != sizedType {
		return json.Number("0"), nil
	}
	return s.readMessage(index, &reader{path: path, values: from.values}, path, depth+1)
}

func skip(kind uint64, from *reader, path string) (err error) {
	switch kind {
	case varintType:
		_, err = from.varint()
	case fixed64Type:
		_, err = from.raw(8)
	case sizedType:
		_, err = from.sized(false)
	case fixed32Type:
		_, err = from.raw(4)
	default:
		err = failed(path, "decode", "there is no wire type %d", kind)
	}
	return err
}
