package rules

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
)

// patterns has the compiled ones by their text in schemas.
var patterns sync.Map

// matches tells whether a pattern of JSON Schema (ECMA-262) is found in a text.
func matches(pattern, text string) (bool, error) {
	found, known := patterns.Load(pattern)
	if !known {
		made, err := regexp.Compile(translated(pattern))
		if err != nil {
			return false, err
		}
		found, _ = patterns.LoadOrStore(pattern, made)
	}
	return found.(*regexp.Regexp).MatchString(text), nil
}

// translated returns a pattern in the syntax of regexp, where the two differ: escapes of characters, and names of groups.
func translated(pattern string) string {
	var made strings.Builder
	for place := 0; place < len(pattern); {
		rest := pattern[place:]
		switch {
		case strings.HasPrefix(rest, `\u`):
			code, size := character(rest)
			made.WriteString(`\x{` + strconv.FormatUint(code, 16) + `}`)
			place += size
		case rest[0] == '\\' && len(rest) > 1:
			made.WriteString(rest[:2])
			place += 2
		case strings.HasPrefix(rest, "(?<") && !strings.HasPrefix(rest, "(?<=") && !strings.HasPrefix(rest, "(?<!"):
			made.WriteString("(?P<")
			place += len("(?<")
		default:
			made.WriteByte(rest[0])
			place++
		}
	}
	return made.String()
}

// character returns what \u0041, \u{41} or a pair of halves stands for, and the length of the escape.
func character(text string) (uint64, int) {
	if strings.HasPrefix(text, `\u{`) {
		end := strings.IndexByte(text, '}')
		code, _ := strconv.ParseUint(text[3:max(end, 3)], 16, 32)
		return code, max(end+1, 3)
	}
	code := unit(text)
	if low := unit(text[min(6, len(text)):]); utf16.IsSurrogate(rune(code)) && low != 0 {
		if both := utf16.DecodeRune(rune(code), rune(low)); both != '\uFFFD' {
			return uint64(both), 12
		}
	}
	return code, min(6, len(text))
}

func unit(text string) uint64 {
	if len(text) < 6 || !strings.HasPrefix(text, `\u`) {
		return 0
	}
	code, _ := strconv.ParseUint(text[2:6], 16, 16)
	return code
}
