package wire

import (
	"bytes"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	secondsOfDay = 86_400
	firstSecond  = -62_135_596_800 // of the year 1
	lastSecond   = 253_402_300_799 // of the year 9999
)

var (
	timestampForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$`)
	dateForm      = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	timeForm      = regexp.MustCompile(`^\d\d:\d\d:\d\d(\.\d{1,9})?$`)
	durationForm  = regexp.MustCompile(`^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$`)
	decimalForm   = regexp.MustCompile(`^(-?)(\d{1,1000})(?:\.(\d{1,1000}))?$`)
)

// moment reads a text as a layout of package time has it, held to a form that is stricter.
func moment(value any, form *regexp.Regexp, layout, kind, path string) (time.Time, error) {
	text, isText := value.(string)
	found, err := time.Parse(layout, text)
	if !isText || err != nil || !form.MatchString(text) {
		return time.Time{}, wrong(value, kind, path)
	}
	return found, nil
}

func instant(value any, path string) (time.Time, error) {
	return moment(value, timestampForm, time.RFC3339Nano, "timestamp", path)
}

func timestamp(moment time.Time, path string) (string, error) {
	if seconds := moment.Unix(); seconds < firstSecond || seconds > lastSecond {
		return "", failed(path, "range", "is a time beyond the years 1 to 9999")
	}
	return moment.UTC().Format("2006-01-02T15:04:05.999999999Z"), nil
}

// unlogical returns the whole number that stands for a value of a logical type in Avro.
func unlogical(logical string, value any, path string) (int64, error) {
	switch logical {
	case "timestamp-millis", "timestamp-micros":
		found, err := instant(value, path)
		if logical == "timestamp-millis" {
			return found.UnixMilli(), err
		}
		return found.UnixMicro(), err
	case "date":
		found, err := moment(value, dateForm, time.DateOnly, "date", path)
		return found.Unix() / secondsOfDay, err
	}
	found, err := moment(value, timeForm, "15:04:05.999999999", "time", path)
	if err != nil {
		return 0, err
	}
	since := time.Duration(found.Hour())*time.Hour + time.Duration(found.Minute())*time.Minute +
		time.Duration(found.Second())*time.Second + time.Duration(found.Nanosecond())
	if logical == "time-millis" {
		return since.Milliseconds(), nil
	}
	return since.Microseconds(), nil
}

func logicalValue(logical string, number int64, path string) (any, error) {
	switch logical {
	case "timestamp-millis":
		return timestamp(time.UnixMilli(number), path)
	case "timestamp-micros":
		return timestamp(time.UnixMicro(number), path)
	case "date":
		if number < firstSecond/secondsOfDay || number > lastSecond/secondsOfDay {
			return nil, failed(path, "range", "is a day beyond the years 1 to 9999")
		}
		return time.Unix(number*secondsOfDay, 0).UTC().Format(time.DateOnly), nil
	}
	step := int64(time.Microsecond)
	if logical == "time-millis" {
		step = int64(time.Millisecond)
	}
	if number < 0 || number >= secondsOfDay*int64(time.Second)/step {
		return nil, failed(path, "range", "is no time of a day")
	}
	return time.Unix(0, number*step).UTC().Format("15:04:05.999999999"), nil
}

// duration returns the seconds and the nanoseconds of a text such as 1.5s.
func duration(value any, path string) (int64, int64, error) {
	text, _ := value.(string)
	found := durationForm.FindStringSubmatch(text)
	if found == nil {
		return 0, 0, wrong(value, "duration, such as 1.5s", path)
	}
	seconds, _ := strconv.ParseInt(found[1]+found[2], 10, 64)
	nanoseconds, _ := strconv.ParseInt(found[1]+found[3]+strings.Repeat("0", 9-len(found[3])), 10, 64)
	return seconds, nanoseconds, nil
}

func durationText(seconds, nanoseconds int64) string {
	second := big.NewInt(int64(time.Second))
	total := new(big.Int).Mul(big.NewInt(seconds), second)
	total.Add(total, big.NewInt(nanoseconds))
	sign := ""
	if total.Sign() < 0 {
		sign = "-"
	}
	whole, rest := new(big.Int).QuoRem(total.Abs(total), second, new(big.Int))
	digits := strings.TrimRight(fmt.Sprintf("%09d", rest), "0")
	if digits != "" {
		digits = "." + digits
	}
	return sign + whole.String() + digits + "s"
}

// undecimal returns the digits of a decimal, with its scale, as two's complement.
func undecimal(node *node, value any, path string) ([]byte, error) {
	text, _ := value.(string)
	found := decimalForm.FindStringSubmatch(text)
	if found == nil {
		return nil, wrong(value, "decimal (text)", path)
	}
	decimals := found[3]
	if len(decimals) > node.Scale {
		return nil, tooLong(node, path)
	}
	digits := strings.TrimLeft(found[2]+decimals+strings.Repeat("0", node.Scale-len(decimals)), "0")
	if len(digits) > node.Precision {
		return nil, tooLong(node, path)
	}
	unscaled, _ := new(big.Int).SetString(found[1]+"0"+digits, 10)
	size := 0
	if node.Kind == "fixed" {
		size = node.Size
	}
	return complement(unscaled, size), nil
}

func tooLong(node *node, path string) error {
	return failed(path, "range", "must have %d digits at most, %d behind the point", node.Precision, node.Scale)
}

// complement returns a number as two's complement, of a size at least.
func complement(number *big.Int, size int) []byte {
	bits, filler := number.BitLen(), byte(0)
	if number.Sign() < 0 {
		bits, filler = new(big.Int).Not(number).BitLen(), 0xff
		number = new(big.Int).Add(number, new(big.Int).Lsh(big.NewInt(1), uint(bits/8+1)*8))
	}
	content := number.FillBytes(make([]byte, bits/8+1))
	if len(content) >= size {
		return content
	}
	return append(bytes.Repeat([]byte{filler}, size-len(content)), content...)
}

func decimalText(scale int, content []byte) string {
	unscaled := new(big.Int).SetBytes(content)
	if len(content) > 0 && content[0] >= 0x80 {
		unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(len(content))*8))
	}
	sign := ""
	if unscaled.Sign() < 0 {
		sign = "-"
	}
	digits := unscaled.Abs(unscaled).String()
	if scale == 0 {
		return sign + digits
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}
