package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// NewProfile is the profile of a shape, named after it. All tenants share one name space
// of profiles, so the name holds 64 bits of the digest: nobody can make up a shape whose
// name is that of another one.
func NewProfile(s Shape) *Profile {
	return &Profile{Name: profilePrefix + s.Digest().String()[:16], Shape: s}
}

const profilePrefix = "p_"

// IsProfileName tells whether a "defaults" section of that name is a profile, and no base of
// profiles.
func IsProfileName(name string) bool {
	return name == DefaultProfile || strings.HasPrefix(name, profilePrefix)
}

// Digest identifies the shape. Lists count by name only, since their entries can change
// at run time, userlists by the digests of their users.
func (s Shape) Digest() Digest {
	// Encoding by reflection is slow, but a shape is digested only when an object's
	// options changed. A Secret encodes as a placeholder, so User.Digest stands for it.
	text, err := json.Marshal(s.withoutEntries())
	if err != nil {
		panic(fmt.Sprintf("model: a Shape does not encode: %v", err)) // only plain types in it
	}
	return DigestOf(text)
}

func (s Shape) withoutEntries() Shape {
	for _, list := range []**List{&s.AllowList, &s.AllowExcept, &s.DenyList, &s.DenyExcept} {
		if *list != nil {
			*list = &List{Name: (*list).Name}
		}
	}
	return s
}

// Lists are the address lists that the shape refers to.
func (s *Shape) Lists() []*List {
	var lists []*List
	for _, list := range []*List{s.AllowList, s.AllowExcept, s.DenyList, s.DenyExcept} {
		if list != nil {
			lists = append(lists, list)
		}
	}
	return lists
}

// Protection identifies what keeps somebody out, whatever else the shape does.
func (s *Shape) Protection() Digest {
	return Shape{TCP: s.TCP, Deny: s.Deny, AllowList: s.AllowList, AllowExcept: s.AllowExcept, DenyList: s.DenyList, DenyExcept: s.DenyExcept, BasicAuth: s.BasicAuth}.Digest()
}

// Protects tells whether the shape keeps anybody out.
func (s *Shape) Protects() bool {
	return s.Deny != 0 || len(s.Lists()) > 0 || s.BasicAuth != nil
}
