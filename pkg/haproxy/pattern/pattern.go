package pattern

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// Bounds of an automaton.
const (
	maxText   = 1024 // bytes of an expression
	maxProg   = 4000 // instructions of its program
	maxStates = 512
	maxCode   = 6000 // bytes of the result
)

// Other stands for all bytes outside ASCII.
const (
	ascii = 128
	other = 0x10FFFD // a character that no expression names
)

// Compile is the automaton of an expression that must match the whole text. It is a text of
// digits and punctuation in five parts with ":" between them, each a list with commas:
//
//	the bytes at which another class of bytes begins, the first of which is 0
//	the class of each of them, counted from 1
//	the number of classes
//	the next state by state and class, states counted from 1; 0: no match
//	the states in which the text may end; the first state is where it begins
func Compile(text string) (string, error) {
	if len(text) > maxText {
		return "", fmt.Errorf("it is longer than %d bytes", maxText)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return "", reason(err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return "", reason(err)
	}
	if len(prog.Inst) > maxProg {
		return "", errTooComplex
	}
	b := &builder{prog: prog, known: map[string]int{}}
	if err := b.classify(); err != nil {
		return "", err
	}
	if err := b.build(); err != nil {
		return "", err
	}
	code := b.encode()
	if len(code) > maxCode {
		return "", errTooComplex
	}
	return code, nil
}

var errTooComplex = errors.New("it is too complex")

func reason(err error) error {
	var syntaxError *syntax.Error
	if errors.As(err, &syntaxError) {
		return fmt.Errorf("%s: %q", syntaxError.Code, syntaxError.Expr)
	}
	return err
}

// builder makes a deterministic automaton of a program: a state is the set of instructions
// that the program may stand at.
type builder struct {
	prog   *syntax.Prog
	starts []int // bytes at which a class begins
	class  []int // of each of them
	sample []rune
	known  map[string]int // set of instructions -> state
	sets   [][]uint32
	next   [][]int // by state and class
	accept []bool
}

// classify puts bytes together that no instruction tells apart.
func (b *builder) classify() error {
	classes := map[string]int{}
	last := -1
	for c := range ascii + 1 {
		r := rune(c)
		if c == ascii {
			r = other
		}
		var key strings.Builder
		for i := range b.prog.Inst {
			inst := &b.prog.Inst[i]
			switch inst.Op {
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
				if inst.MatchRune(r) {
					key.WriteString(strconv.Itoa(i) + " ")
				}
			case syntax.InstEmptyWidth:
				if syntax.EmptyOp(inst.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 {
					return errors.New(`word boundaries (\b, \B) are not supported`)
				}
			}
		}
		class, ok := classes[key.String()]
		if !ok {
			class = len(b.sample)
			classes[key.String()] = class
			b.sample = append(b.sample, r)
		}
		if class != last {
			b.starts, b.class = append(b.starts, c), append(b.class, class)
			last = class
		}
	}
	return nil
}

// Places at which a position in a text may be.
const (
	begin = syntax.EmptyBeginText | syntax.EmptyBeginLine
	end   = syntax.EmptyEndText | syntax.EmptyEndLine
)

// closure is the set of instructions that are reached from some without a byte, sorted.
func (b *builder) closure(from []uint32, at syntax.EmptyOp) []uint32 {
	seen := map[uint32]bool{}
	stack := slices.Clone(from)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		inst := &b.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^at == 0 {
				stack = append(stack, inst.Out)
			}
		}
	}
	set := make([]uint32, 0, len(seen))
	for pc := range seen {
		set = append(set, pc)
	}
	slices.Sort(set)
	return set
}

// state is the state of a set, new if need be. Whether a text may end in it depends on
// whether it is where the text begins.
func (b *builder) state(set []uint32, at syntax.EmptyOp) int {
	key := fmt.Sprint(at, set)
	if n, ok := b.known[key]; ok {
		return n
	}
	n := len(b.sets)
	b.known[key] = n
	b.sets = append(b.sets, set)
	matches := slices.ContainsFunc(b.closure(set, at|end), func(pc uint32) bool { return b.prog.Inst[pc].Op == syntax.InstMatch })
	b.accept = append(b.accept, matches)
	return n
}

const none = -1

func (b *builder) build() error {
	b.state(b.closure([]uint32{uint32(b.prog.Start)}, begin), begin)
	for n := 0; n < len(b.sets); n++ {
		if n == maxStates {
			return errTooComplex
		}
		row := make([]int, len(b.sample))
		for class, r := range b.sample {
			var to []uint32
			for _, pc := range b.sets[n] {
				inst := &b.prog.Inst[pc]
				switch inst.Op {
				case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
					if inst.MatchRune(r) {
						to = append(to, inst.Out)
					}
				}
			}
			row[class] = none
			if len(to) > 0 {
				row[class] = b.state(b.closure(to, 0), 0)
			}
		}
		b.next = append(b.next, row)
	}
	return nil
}

// groups numbers the states, equal ones alike: two are, if a text may end in both or in
// neither, and each class leads from them to equal ones. The first state has number 0.
func (b *builder) groups() []int {
	group := make([]int, len(b.next))
	for count := 0; ; {
		numbers := map[string]int{}
		after := make([]int, len(group))
		for n, row := range b.next {
			var key strings.Builder
			fmt.Fprint(&key, b.accept[n], group[n])
			for _, to := range row {
				if to != none {
					to = group[to]
				}
				fmt.Fprint(&key, " ", to)
			}
			number, ok := numbers[key.String()]
			if !ok {
				number = len(numbers)
				numbers[key.String()] = number
			}
			after[n] = number
		}
		group = after
		if len(numbers) == count {
			return group
		}
		count = len(numbers)
	}
}

func (b *builder) encode() string {
	group := b.groups()
	var next, accept []int
	done := 0
	for n, row := range b.next {
		if group[n] != done { // numbers rise in the order of their first states
			continue
		}
		done++
		for _, to := range row {
			if to != none {
				to = group[to]
			}
			next = append(next, to+1)
		}
		if b.accept[n] {
			accept = append(accept, done)
		}
	}
	class := make([]int, len(b.class))
	for i, c := range b.class {
		class[i] = c + 1
	}
	return strings.Join([]string{list(b.starts), list(class), strconv.Itoa(len(b.sample)), list(next), list(accept)}, ":")
}

func list(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}
