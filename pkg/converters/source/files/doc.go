// Package files is the source of standalone mode: it reads Kubernetes manifests from
// folders, files and standard input, once (Read) or for as long as the program runs
// (Source).
//
// It owns how a path becomes objects: which files of a folder count, how a file is
// framed into documents, what is filled in as the API server would, which object wins
// if two files hold it, and what stays in force while a file can't be read.
//
//	path -> tree (nodes, what to watch) -> decode (documents) -> store (who wins) -> Batch
//
// The rules:
//   - A folder is read with its sub-folders. Names that begin with a dot are ignored;
//     symbolic links are followed, so that a mounted ConfigMap or Secret, whose visible
//     names lead through the hidden "..data", is read, and seen to change when "..data"
//     is swapped.
//   - A file that does not parse, is empty all of a sudden or can't be opened keeps its
//     last good content in force, and a finding names file and line. A file or folder
//     that is gone takes its objects with it.
//   - An object that parses but does not fit its type keeps its own last good form; the
//     others of its file go on.
//   - Of two files with the same object, the first wins: in the order of the paths as
//     given, then of the text of the file's path, then of the place in the file.
//
// It stands at the beginning of the line, beside the cluster source. It may import
// snapshot, report, model and the Kubernetes API types, and no other part of the project.
// It may log and does I/O; decoding is pure.
//
// Limits: a file may have 64 MB. Nothing polls, so file systems that don't tell inotify
// about changes made elsewhere (NFS, some FUSE) are read at start only. An object that
// merely moves within its file, or to another one, is not sent again: its position is
// that of its last change. All objects of one List share the line of the List. "-" (standard input)
// can't be watched.
package files
