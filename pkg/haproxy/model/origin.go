package model

import "cmp"

// Origin names the user's object, and the field of it, that something was made of. A
// refusal by HAProxy is traced back to an object through it.
type Origin struct {
	Kind      string `json:"kind"` // as the API spells it: Ingress, Service, ConfigMap
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Field     string `json:"field,omitempty"` // JSON path or annotation key; empty for the whole object
}

// Object is the origin without its field.
func (o Origin) Object() Origin {
	o.Field = ""
	return o
}

// IsZero tells whether there is no origin: the text is sluice's own.
func (o Origin) IsZero() bool { return o == Origin{} }

// String is kind/namespace/name, with the field behind a blank.
func (o Origin) String() string {
	s := o.Kind + "/" + o.Name
	if o.Namespace != "" {
		s = o.Kind + "/" + o.Namespace + "/" + o.Name
	}
	if o.Field != "" {
		s += " " + o.Field
	}
	return s
}

// CompareOrigins orders by kind, namespace, name and field.
func CompareOrigins(a, b Origin) int {
	return cmp.Or(
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Field, b.Field),
	)
}
