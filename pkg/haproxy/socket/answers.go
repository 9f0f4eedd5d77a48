package socket

import "strings"

// meaning is what an answer of HAProxy says about the command.
type meaning uint8

const (
	unknown meaning = iota // not in the table: treated as failure
	done                   // it took effect
	exists                 // it had taken effect before
	missing                // its object does not exist
	busy                   // later, perhaps
	foreign                // somebody else's transaction is open
)

// answer is one text that HAProxy gives to a command. A star stands for any text, so
// that names and appended warnings do not matter. The text holds no severity prefix.
type answer struct {
	text  string
	means meaning
}

// answers are all texts that are understood, by command; the tests provoke each of them
// on both binaries, 3.2 and 3.4. What differs between the two is marked. An empty text
// is the answer of a command that succeeds silently.
func answers(verb string) []answer {
	switch verb {
	case "set server", "enable health":
		return []answer{{"", done}}
	case "add server":
		return []answer{
			{"*New server registered.", done}, // warnings may stand before it
			{"Already exists a server with the same name in backend.", exists},
		}
	case "set server maint": // before a deletion
		return []answer{{"", done}, {"No such server.", missing}, {"No such backend.", missing}}
	case "wait":
		return []answer{
			{"Done.", done},
			{"Failed.*", missing}, // 3.4 adds the reason
			{"Wait delay expired.*", busy},
		}
	case "del server":
		return []answer{
			{"Server deleted.", done},
			{"No such server.", missing},
			{"No such backend.", missing},
			{"Server still has connections attached to it, cannot remove it.", busy},
		}
	case "add map", "add acl":
		return []answer{{"", done}}
	case "set map":
		return []answer{{"", done}, {"entry not found.", missing}}
	case "del map", "del acl":
		return []answer{{"", done}, {"Key not found.", missing}}
	}
	if list := backendAnswers(verb); list != nil {
		return list
	}
	if list := certificateAnswers(verb); list != nil {
		return list
	}
	panic("no answers are known to the command " + verb)
}

// backendAnswers are those to commands on backends; nil: it is none.
func backendAnswers(verb string) []answer {
	switch verb {
	case "add backend":
		// Earlier messages of HAProxy may stand before it; behind it would stand that the backend
		// takes no servers at run time.
		return []answer{
			{"*New backend registered.", done},
			{"Error during backend creation : name is already used by other proxy 'backend *'.", exists},
		}
	case "publish backend":
		return []answer{{"*Backend published.", done}}
	case "unpublish backend":
		return []answer{{"*Backend unpublished.", done}, {"*No such backend.", missing}}
	case "show stat backend":
		return []answer{{"# pxname,*", done}, {"No such proxy.", missing}}
	case "show servers state":
		return []answer{{"1\n# be_id *", done}, {"Can't find backend.", missing}}
	case "del backend":
		return []answer{
			{"*Backend deleted.", done},
			{"*No such backend.", missing},
			{"*Only a backend without server can be deleted.", busy},
			{"*Backend still has attached streams on it.", busy},
		}
	}
	return nil
}

// certificateAnswers are those to commands on certificates; nil: it is none.
func certificateAnswers(verb string) []answer {
	switch verb {
	case "new ssl cert":
		return []answer{{"New empty certificate store '*'!", done}, {"Certificate '*' already exists!", exists}}
	case "set ssl cert":
		return []answer{
			{"Transaction created for certificate *!", done},
			{"Transaction updated for certificate *!", done},
			{"The ongoing transaction is about '*' but you are trying to set '*'*", foreign},
		}
	case "commit ssl cert":
		return []answer{{"Committing *Success!", done}}
	case "abort ssl cert":
		return []answer{{"Transaction aborted for certificate '*'!", done}, {"No ongoing transaction!", missing}}
	case "del ssl cert":
		return []answer{
			{"Certificate '*' deleted!", done},
			{"Can't remove the certificate: certificate '*' doesn't exist!", missing},
		}
	case "new ssl ca-file":
		return []answer{{"New CA file created '*'!", done}, {"CA file '*' already exists!", exists}}
	case "set ssl ca-file":
		return []answer{
			{"transaction created for CA *!", done},
			{"transaction updated for CA *!", done},
			{"The ongoing transaction is about '*' but you are trying to set '*'*", foreign},
		}
	case "commit ssl ca-file":
		return []answer{{"Committing *Success!", done}}
	case "abort ssl ca-file":
		return []answer{{"Transaction aborted for certificate '*'!", done}, {"No ongoing transaction!", missing}}
	case "del ssl ca-file":
		return []answer{
			{"CA file '*' deleted!", done},
			{"Can't remove the CA file: CA file '*' doesn't exist!", missing},
		}
	case "add ssl crt-list":
		return []answer{{"Inserting certificate '*' in crt-list '*'.*Success!", done}}
	case "del ssl crt-list":
		return []answer{{"Entry '*' deleted in crtlist '*'!", done}}
	}
	return nil
}

// meaningOf looks an answer up.
func meaningOf(verb, text string) meaning {
	for _, a := range answers(verb) {
		if match(a.text, text) {
			return a.means
		}
	}
	return unknown
}

// match compares a text with a pattern in which a star stands for any text.
func match(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return text == pattern
	}
	last := parts[len(parts)-1]
	if !strings.HasPrefix(text, parts[0]) || !strings.HasSuffix(text, last) || len(text) < len(parts[0])+len(last) {
		return false
	}
	text = text[len(parts[0]) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}
