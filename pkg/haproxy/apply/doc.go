// Package apply carries out plans: it is the place where the running HAProxy, the
// configuration folder and the registry are changed, together and in an order in which
// the process can be killed at any point.
//
// # Two numbers
//
// Each batch of changes has a number. The file maps/sluice.map of the current generation
// holds one (F), the map that the worker loaded from it another (K). The rule is:
//
//	F == K means that the worker serves exactly what the files say.
//
// The file holds the digest of the tree that the batch leads to, too: whoever edits another
// file while no controller runs makes it differ, and then what the files say is not what
// the worker was started on.
//
// A plan without a reload is carried out so:
//
//  1. a new number is written into the file    F=n+1, K=n
//  2. the commands go to the worker            the worker is ahead of the files
//  3. the files are written, then removed      each prefix loads
//  4. the key is set in the worker             F=n+1, K=n+1
//  5. the records of changed shards are saved, and the header where it differs
//
// Whoever dies between 1 and 4 leaves unequal numbers: Open then does not adopt what the
// worker serves, and the first plan is one validated reload. After 4 the worker and the
// files agree; a record that was not saved names another digest than the file has, which
// costs the rewrite of one shard file and no reload. A worker that is started on the
// folder loads F as its K, and is by that what the files say, at every point.
//
// The worker may have backends besides, which no route leads to: a removal is noted in step
// 2 and carried out later, by RetryRemovals, so that requests which looked their route up
// before find what it led to. Open removes those that an earlier life left.
//
// maps/sluice.map is written here only. It is part of each generation on disk, but not of
// Registry.Tree, nor of the trees that plans hold.
//
// # Reload
//
//	stage gen-N+1 -> journal so far -> haproxy -c -> swap -> reload -> rest of the journal
//	     the old worker gets commands at once ............ '
//
// The staged generation has a number of its own, so between the swap and the end of the
// reload the numbers differ, and the new worker's is right from its first moment. What is
// planned meanwhile goes through Do against Expected: the old worker gets its commands at
// once as far as it has the backends they speak of, and the plan goes into the journal.
// Files are not touched while HAProxy reads them: of what comes before the check the last
// version of each file is written into the staged generation; the rest is carried out after
// the reload, as one batch of the kind above, on the new worker. So nothing that the old worker alone was
// told is lost, and no file of the old generation ever speaks of what only the new one
// has. A new backend goes to the old worker if that one has loaded its profile. A connection that reaches the wrong worker is refused by the socket package, which
// compares the pid behind each connection with Worker.
//
// The answer to a reload may be lost: then the rule above is asked itself, whether a worker
// holds the number of the staged generation. Early tells the old worker ahead about servers
// in a plan that has a reload of its own and waits for this one. A check, a reload or a
// start that hangs counts as failed after Config.LoadTimeout.
//
// If HAProxy refuses the tree nothing was swapped; if the reload fails after a passed
// check the link is swapped back. In both cases the old worker serves on, and the
// registry in the Outcome describes it, with all that it was told meanwhile.
//
// Before all that a reload waits for its turn (Config.Pace), and while there are as many old
// workers as Config.Room allows, or no memory for another one. It is in flight meanwhile.
//
// Where no worker runs, Reload is a cold start; if the tree is refused then, HAProxy is
// started on the generation that stands.
//
// # Place, limits
//
// It stands between Plan and Status and imports files, socket, process, plan, shard,
// tree and model. It logs. All exported methods may be called from any goroutine; one
// reload is in flight at a time. With unequal numbers at start it does not compare maps
// and servers one by one: it reloads, which costs a second and is right in every case; the
// log says which backends differ. Of the profiles that an adopted worker has loaded it knows
// those that stand in the files.
package apply
