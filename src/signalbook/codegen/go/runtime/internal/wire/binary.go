package wire

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"
)

func zigzag(number int64) uint64 { return uint64(number<<1) ^ uint64(number>>63) }

func unzigzag(number uint64) int64 { return int64(number>>1) ^ -int64(number&1) }

// appendSized writes bytes behind their length; Avro's lengths are signed.
func appendSized(out, content []byte, signed bool) []byte {
	size := uint64(len(content))
	if signed {
		size = zigzag(int64(size))
	}
	return append(binary.AppendUvarint(out, size), content...)
}

func appendText(out []byte, value any, path string, signed bool) ([]byte, error) {
	text, isText := value.(string)
	if !isText {
		return nil, wrong(value, "string", path)
	}
	return appendSized(out, []byte(text), signed), nil
}

func appendReal(out []byte, value any, kind, path string) ([]byte, error) {
	number, err := real(value, kind, path)
	if err != nil {
		return nil, err
	}
	if kind == "float" {
		return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(number))), nil
	}
	return binary.LittleEndian.AppendUint64(out, math.Float64bits(number)), nil
}

func fromBase64(value any, kind, path string) ([]byte, error) {
	text, isText := value.(string)
	content, err := base64.StdEncoding.DecodeString(text)
	if !isText || err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, wrong(value, kind+" (base64)", path)
	}
	return content, nil
}

// A reader reads bytes from their beginning. All readers of one payload share what is left of the number of values.
type reader struct {
	bytes  []byte
	path   string
	values *int
}

func (r *reader) left() int { return len(r.bytes) }

// count notes values that are about to be made, so that a few bytes do not become millions of them.
func (r *reader) count(number int, path string) error {
	if *r.values -= number; *r.values < 0 {
		return failed(path, "decode", "has more values than a payload of its size may have")
	}
	return nil
}

// inner returns a reader of a part, which has its length before it.
func (r *reader) inner(path string) (*reader, error) {
	part, err := r.sized(false)
	return &reader{bytes: part, path: path, values: r.values}, err
}

func (r *reader) raw(count uint64) ([]byte, error) {
	if count > uint64(len(r.bytes)) {
		return nil, failed(r.path, "decode", "the payload ends too early")
	}
	part := r.bytes[:count]
	r.bytes = r.bytes[count:]
	return part, nil
}

func (r *reader) varint() (uint64, error) {
	var number uint64
	for place, next := range r.bytes {
		if place == binary.MaxVarintLen64 {
			return 0, failed(r.path, "decode", "a number has more than ten bytes")
		}
		number |= uint64(next&0x7f) << (7 * place)
		if next < 0x80 {
			r.bytes = r.bytes[place+1:]
			return number, nil
		}
	}
	return 0, failed(r.path, "decode", "the payload ends too early")
}

func (r *reader) zigzag() (int64, error) {
	number, err := r.varint()
	return unzigzag(number), err
}

func (r *reader) sized(signed bool) ([]byte, error) {
	size, err := r.varint()
	if err != nil {
		return nil, err
	}
	if signed {
		size = uint64(unzigzag(size)) // one below zero is more than there is
	}
	return r.raw(size)
}

func (r *reader) text(signed bool, path string) (string, error) {
	content, err := r.sized(signed)
	if err == nil && !utf8.Valid(content) {
		return "", failed(path, "decode", "is not in UTF-8")
	}
	return string(content), err
}

func (r *reader) fixed32() (uint32, error) {
	content, err := r.raw(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(content), nil
}

func (r *reader) fixed64() (uint64, error) {
	content, err := r.raw(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(content), nil
}

// real reads a float or a double.
func (r *reader) real(kind, path string) (any, error) {
	if kind == "float" {
		bits, err := r.fixed32()
		if err != nil {
			return nil, err
		}
		return finite(float64(math.Float32frombits(bits)), path)
	}
	bits, err := r.fixed64()
	if err != nil {
		return nil, err
	}
	return finite(math.Float64frombits(bits), path)
}
