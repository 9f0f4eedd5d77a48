package loop

// want tells the source what the line looks up since the last time, and waits for what it
// has to read first: a route that is new would be served with the default certificate for
// a moment. Before the first plan the wait has no end, since the HAProxy of an earlier run
// serves meanwhile.
func (l *Loop) want() {
	wanted, unwanted := l.Line.Wanted()
	if l.Contents == nil || len(wanted)+len(unwanted) == 0 {
		return
	}
	for _, key := range unwanted {
		delete(l.awaited, key)
	}
	waited := len(l.awaited) > 0
	for _, key := range l.Contents.Want(wanted, unwanted) {
		l.awaited[key] = struct{}{}
	}
	if len(l.awaited) > 0 && !waited && l.status.Ready {
		l.hold.Reset(holdAtMost)
	}
}

// stopWaiting has the plan go on without the contents that did not come. They are a change
// like any other when they do.
func (l *Loop) stopWaiting() {
	if len(l.awaited) > 0 {
		l.Log.Warn("the API server is slow to give what is referenced; going on without", "objects", len(l.awaited))
	}
	clear(l.awaited)
}

// noteTrouble shows what keeps the source from following its objects, once for each reason.
func (l *Loop) noteTrouble(trouble string) {
	if trouble == l.status.Trouble {
		return
	}
	switch l.status.Trouble = trouble; {
	case trouble == "":
		l.Log.Info("the source follows its objects again")
	case l.status.Ready:
		l.Log.Warn("the source can't follow its objects; what it knew last stays in force", "reason", trouble)
	default:
		l.Log.Warn("the source can't read its objects yet", "reason", trouble)
	}
	l.publish(nil)
}
