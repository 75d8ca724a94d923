package wire

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"

	"example.com/messages/internal/values"
)

func (s *Schema) appendAvro(out []byte, index int, value any, path string, depth int) ([]byte, error) {
	node := &s.nodes[index]
	if err := nested(path, depth); err != nil {
		return nil, err
	}
	switch node.Kind {
	case "null":
		if value != nil {
			return nil, wrong(value, "null", path)
		}
		return out, nil
	case "boolean":
		return appendBoolean(out, value, "boolean", path)
	case "int", "long":
		number, err := avroInteger(node, value, path)
		return binary.AppendUvarint(out, zigzag(number)), err
	case "float", "double":
		return appendReal(out, value, node.Kind, path)
	case "string":
		return appendText(out, value, path, true)
	case "bytes", "fixed":
		return appendAvroBytes(out, node, value, path)
	case "enum":
		for place, symbol := range node.Symbols {
			if symbol == value {
				return binary.AppendUvarint(out, zigzag(int64(place))), nil
			}
		}
		return nil, failed(path, "enum", "must be one of %s", strings.Join(node.Symbols, ", "))
	case "union":
		return s.appendUnion(out, node, value, path, depth)
	case "array":
		return s.appendArray(out, node, value, path, depth)
	case "map":
		return s.appendMap(out, node, value, path, depth)
	default:
		return s.appendRecord(out, node, value, path, depth)
	}
}

func appendBoolean(out []byte, value any, kind, path string) ([]byte, error) {
	switch value {
	case true:
		return append(out, 1), nil
	case false:
		return append(out, 0), nil
	}
	return nil, wrong(value, kind, path)
}

func avroInteger(node *node, value any, path string) (int64, error) {
	if node.Logical != "" {
		return unlogical(node.Logical, value, path)
	}
	bits := 64
	if node.Kind == "int" {
		bits = 32
	}
	number, err := whole(value, node.Kind, bits, true, path)
	if err != nil {
		return 0, err
	}
	return number.Int64(), nil
}

func appendAvroBytes(out []byte, node *node, value any, path string) ([]byte, error) {
	var content []byte
	var err error
	if node.Logical == "decimal" {
		content, err = undecimal(node, value, path)
	} else {
		content, err = fromBase64(value, node.Kind, path)
	}
	switch {
	case err != nil:
		return nil, err
	case node.Kind == "bytes":
		return appendSized(out, content, true), nil
	case len(content) != node.Size:
		return nil, failed(path, "size", "must have %d bytes", node.Size)
	}
	return append(out, content...), nil
}

// appendUnion writes the first branch that takes the value; the error is what the last one has against it.
func (s *Schema) appendUnion(out []byte, node *node, value any, path string, depth int) ([]byte, error) {
	var failure error = failed(path, "union", "is of no branch of the union")
	for place, branch := range node.Branches {
		start := binary.AppendUvarint(out, zigzag(int64(place)))
		made, err := s.appendAvro(start, branch, value, path, depth+1)
		if err == nil {
			return made, nil
		}
		if s.nodes[branch].Kind != "null" {
			failure = err
		}
	}
	return nil, failure
}

func (s *Schema) appendArray(out []byte, node *node, value any, path string, depth int) ([]byte, error) {
	items, isArray := value.([]any)
	if !isArray {
		return nil, wrong(value, "array", path)
	}
	if len(items) > 0 {
		out = binary.AppendUvarint(out, zigzag(int64(len(items))))
	}
	for place, item := range items {
		var err error
		if out, err = s.appendAvro(out, node.Of, item, path+"/"+strconv.Itoa(place), depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, 0), nil
}

func (s *Schema) appendMap(out []byte, node *node, value any, path string, depth int) ([]byte, error) {
	members, isMap := value.(map[string]any)
	if !isMap {
		return nil, wrong(value, "map", path)
	}
	if len(members) > 0 {
		out = binary.AppendUvarint(out, zigzag(int64(len(members))))
	}
	for _, name := range values.Names(members) {
		var err error
		out = appendSized(out, []byte(name), true)
		if out, err = s.appendAvro(out, node.Of, members[name], path+"/"+values.Escaped(name), depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, 0), nil
}

func (s *Schema) appendRecord(out []byte, node *node, value any, path string, depth int) ([]byte, error) {
	members, isRecord := value.(map[string]any)
	if !isRecord {
		return nil, wrong(value, "record", path)
	}
	if err := surplus(members, node.Fields, path); err != nil {
		return nil, err
	}
	for place := range node.Fields {
		field := &node.Fields[place]
		below := path + "/" + values.Escaped(field.Name)
		each, given := members[field.Name]
		if !given {
			var err error
			if each, err = defaultOf(field, below); err != nil {
				return nil, err
			}
		}
		var err error
		if out, err = s.appendAvro(out, field.Of, each, below, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func defaultOf(field *field, path string) (any, error) {
	if field.Default == nil {
		return nil, failed(path, "required", "is required")
	}
	return values.Parse(field.Default)
}

func (s *Schema) readAvro(index int, from *reader, path string, depth int) (any, error) {
	node := &s.nodes[index]
	if err := nested(path, depth); err != nil {
		return nil, err
	}
	switch node.Kind {
	case "null":
		return nil, nil
	case "boolean":
		content, err := from.raw(1)
		return err == nil && content[0] == 1, err
	case "int", "long":
		number, err := from.zigzag()
		if err != nil || node.Logical == "" {
			return json.Number(strconv.FormatInt(number, 10)), err
		}
		return logicalValue(node.Logical, number, path)
	case "float", "double":
		return from.real(node.Kind, path)
	case "string":
		return from.text(true, path)
	case "bytes", "fixed":
		return readAvroBytes(node, from)
	case "enum":
		place, err := choice(from, len(node.Symbols), path)
		if err != nil {
			return nil, err
		}
		return node.Symbols[place], nil
	case "union":
		place, err := choice(from, len(node.Branches), path)
		if err != nil {
			return nil, err
		}
		return s.readAvro(node.Branches[place], from, path, depth+1)
	case "array":
		return s.readArray(node, from, path, depth)
	case "map":
		return s.readMap(node, from, path, depth)
	default:
		return s.readRecord(node, from, path, depth)
	}
}

func readAvroBytes(node *node, from *reader) (any, error) {
	var content []byte
	var err error
	if node.Kind == "bytes" {
		content, err = from.sized(true)
	} else {
		content, err = from.raw(uint64(node.Size))
	}
	if err == nil && node.Logical == "decimal" {
		return decimalText(node.Scale, content), nil
	}
	return base64.StdEncoding.EncodeToString(content), err
}

func choice(from *reader, count int, path string) (int, error) {
	place, err := from.zigzag()
	if err == nil && (place < 0 || place >= int64(count)) {
		return 0, failed(path, "decode", "there is no choice %d", place)
	}
	return int(place), err
}

func (s *Schema) readRecord(node *node, from *reader, path string, depth int) (any, error) {
	if err := from.count(len(node.Fields), path); err != nil {
		return nil, err
	}
	members := make(map[string]any, len(node.Fields))
	for _, field := range node.Fields {
		value, err := s.readAvro(field.Of, from, path+"/"+values.Escaped(field.Name), depth+1)
		if err != nil {
			return nil, err
		}
		members[field.Name] = value
	}
	return members, nil
}

func (s *Schema) readArray(node *node, from *reader, path string, depth int) (any, error) {
	items := []any{}
	err := blocks(from, path, func() error {
		item, err := s.readAvro(node.Of, from, path+"/"+strconv.Itoa(len(items)), depth+1)
		items = append(items, item)
		return err
	})
	return items, err
}

func (s *Schema) readMap(node *node, from *reader, path string, depth int) (any, error) {
	members := map[string]any{}
	err := blocks(from, path, func() error {
		name, err := from.text(true, path)
		if err != nil {
			return err
		}
		members[name], err = s.readAvro(node.Of, from, path+"/"+values.Escaped(name), depth+1)
		return err
	})
	return members, err
}

// blocks reads the items of an array or a map: counts, each with as many items behind it.
func blocks(from *reader, path string, item func() error) error {
	for {
		count, err := from.zigzag()
		if err == nil && count < 0 { // the size of the block follows
			count = -count
			_, err = from.zigzag()
		}
		if err != nil || count == 0 {
			return err
		}
		if count < 0 || count > int64(*from.values) {
			return failed(path, "decode", "has more values than a payload of its size may have")
		}
		if err := from.count(int(count), path); err != nil {
			return err
		}
		for ; count > 0; count-- {
			if err := item(); err != nil {
				return err
			}
		}
	}
}
