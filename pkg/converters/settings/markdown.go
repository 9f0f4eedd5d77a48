package settings

import (
	"fmt"
	"strings"
)

// Markdown is the page docs/options.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("| Option | Scope | Type | Default | haproxy-ingress | Global change | Meaning |\n|---|---|---|---|---|---|---|\n")
	for _, o := range table {
		names := "`" + o.Name + "`"
		for _, alias := range o.Aliases {
			names += ", `" + alias + "`"
		}
		scope := o.Scope.String()
		if o.FailClosed {
			scope += ", fails closed"
		}
		if o.Guards {
			scope += ", guard"
		}
		row(&b, names, scope, typeCell(o), code(o.Default), theirs(o), o.Live.String(), meaning(o))
	}
	b.WriteString(pageUnsupported)
	b.WriteString("| Option | Scope | What to do |\n|---|---|---|\n")
	for _, u := range UnsupportedOptions() {
		instead := u.Instead
		if u.Guards {
			instead += ". **A path that asks for it is denied.**"
		}
		row(&b, "`"+u.Name+"`", u.Scope.String(), instead)
	}
	return b.String()
}

const pageHead = `# Options

This page is generated from the table in pkg/converters/settings; a test fails when it is stale.

An option is a key of the global ConfigMap (without a prefix) or an annotation with the prefix
` + "`sluice-proxy.github.io/` or `haproxy-ingress.github.io/`" + `. Every option may stand in the global
ConfigMap, as a default. One of scope *global* may stand nowhere else; one of another scope may also stand in
the ConfigMap that an IngressClass names as its parameters, and on an Ingress; one of scope *path* or
*backend* also on a Service (but path-type and rewrite-target). From the lowest to the highest: built-in default, global
ConfigMap, parameters of the class, Ingress, Service.

*Global change* says how another value in the global ConfigMap gets to a running HAProxy, for backends without options of
their own: at *run time* by commands, by *new backends* beside the old ones (a reload where HAProxy can't add backends at run
time), or by a *reload*. To switch an option on or off is a reload in nearly all cases, since rules come or go then.

A value that can't be read is reported, and it is as if the key did not stand there. An option that *fails closed*
is the exception: the path answers 503 then, or the safe value that is named below is used. A *guard* keeps somebody
out, or keeps requests from servers that are not verified: should HAProxy refuse an object, its last good form serves
on, but not where it guards less than the new one.

`

const pageUnsupported = `
## Options of haproxy-ingress that sluice does not offer

They are reported and have no effect. Where a path would be open without one, the path answers 503, unless the
value is ` + "`false`, `off` or `0`" + `.

`

func typeCell(o Option) string {
	text := o.Type.String()
	switch {
	case o.Type == Enum || o.Type == Code || o.Type == Balance:
		text += ": " + code(strings.Join(o.Values, "`, `"))
	case len(o.Values) > 0:
		text += " of " + code(strings.Join(o.Values, "`, `"))
	case o.Type == Int:
		text += fmt.Sprintf(" from %d to %d", o.Min, o.Max)
	case o.Type == Size:
		text += fmt.Sprintf(" from 1 to %d", o.Max)
	case o.Type == Duration:
		text += fmt.Sprintf(" of at least %dms", o.Min)
	}
	return text
}

func theirs(o Option) string {
	switch {
	case o.Own:
		return "no such option"
	case o.Theirs == "":
		return "the same"
	}
	return code(o.Theirs)
}

func meaning(o Option) string {
	text := o.Doc
	if o.Risk != "" {
		text += " Risk: " + o.Risk
	}
	switch {
	case o.Safe != "":
		text += " An unreadable value counts as " + code(o.Safe) + "."
	case o.hasSafe:
		text += " An unreadable value counts as an empty one."
	}
	if o.Note != "" {
		text += " *" + o.Note + "*"
	}
	return text
}

func code(text string) string {
	if text == "" {
		return "none"
	}
	return "`" + text + "`"
}

func row(b *strings.Builder, cells ...string) {
	for _, cell := range cells {
		b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}
