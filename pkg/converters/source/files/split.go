package files

import (
	"bytes"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// chunk is the text of one document of a stream.
type chunk struct {
	text   []byte
	start  int // line of the stream on which text begins, 1-based
	first  int // line on which the content begins: behind separator, comments, blank lines
	digest model.Digest
}

// split cuts a YAML stream at its document markers, "---" and "..." (YAML 1.2, 9.1.2).
//
// apimachinery's reader of documents does the same but does not tell lines, refuses
// content behind "---" and drops what follows "...". The marker stays in the text for
// the parser to judge. Chunks without content are left out.
func split(stream []byte) []chunk {
	var chunks []chunk
	begin, current := 0, chunk{start: 1}
	flush := func(end int) {
		if current.first > 0 {
			current.text = stream[begin:end]
			current.digest = model.DigestOf(current.text)
			chunks = append(chunks, current)
		}
	}
	directive := false // what stands before the marker belongs to the document
	for offset, line := 0, 1; offset < len(stream); line++ {
		text, next := cutLine(stream, offset)
		switch rest, mark := marker(text); {
		case mark == "---" && !(directive && current.first == 0):
			flush(offset)
			begin, current, directive = offset, chunk{start: line}, false
			current.note(rest, line)
		case mark == "---":
			directive = false
			current.note(rest, line)
		case mark == "...":
			flush(offset)
			begin, current, directive = next, chunk{start: line + 1}, false
		case current.first == 0 && bytes.HasPrefix(text, []byte("%")):
			directive = true
		default:
			current.note(text, line)
		}
		offset = next
	}
	flush(len(stream))
	return chunks
}

// note records the first line that is neither blank nor a comment.
func (c *chunk) note(text []byte, line int) {
	if c.first > 0 {
		return
	}
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '#' {
		c.first = line
	}
}

// cutLine is the line that begins at offset, and the offset of the next.
func cutLine(stream []byte, offset int) (text []byte, next int) {
	if n := bytes.IndexByte(stream[offset:], '\n'); n >= 0 {
		return stream[offset : offset+n], offset + n + 1
	}
	return stream[offset:], len(stream)
}

// marker tells which document marker a line begins with, and what stands behind it.
func marker(line []byte) (rest []byte, mark string) {
	switch {
	case bytes.HasPrefix(line, []byte("---")):
		mark = "---"
	case bytes.HasPrefix(line, []byte("...")):
		mark = "..."
	default:
		return nil, ""
	}
	rest = line[len(mark):]
	if len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r") {
		return nil, ""
	}
	return rest, mark
}

// lineAt is the number of lines that end before offset.
func lineAt(text []byte, offset int) int {
	return bytes.Count(text[:min(max(offset, 0), len(text))], []byte("\n"))
}
