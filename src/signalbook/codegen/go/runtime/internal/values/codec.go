package values

// A Codec writes payloads of one schema document and reads them. root names the schema of a payload in it.
// It may be used by several goroutines at once.
type Codec interface {
	Encode(root string, value any, path string) ([]byte, []Finding)
	Decode(root string, body []byte, path string) (any, []Finding)
}

// Failed returns the finding of an error; none without one.
func Failed(path, rule string, err error) []Finding {
	if err == nil {
		return nil
	}
	return []Finding{{Path: path, Rule: rule, Message: err.Error()}}
}
