package deploy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const root = "../.."

// dockerfile are the stages of the Dockerfile and its arguments before the first.
func dockerfile(t *testing.T) ([]instructions.Stage, map[string]string) {
	t.Helper()
	file, err := os.Open(root + "/rootfs/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	stages, meta, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]string{}
	for _, command := range meta {
		for _, arg := range command.Args {
			args[arg.Key] = arg.ValueString()
		}
	}
	return stages, args
}

// commandsOf are the instructions of one type in a stage.
func commandsOf[T instructions.Command](stage instructions.Stage) []T {
	var list []T
	for _, command := range stage.Commands {
		if typed, ok := command.(T); ok {
			list = append(list, typed)
		}
	}
	return list
}

func TestDockerfileCopiesWhatExists(t *testing.T) {
	stages, _ := dockerfile(t)
	ignored, err := os.ReadFile(root + "/.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	n := 0
	for _, stage := range stages {
		for _, c := range commandsOf[*instructions.CopyCommand](stage) {
			if c.From != "" {
				if !names[c.From] {
					t.Errorf("COPY --from=%s: there is no such stage before", c.From)
				}
				continue
			}
			for _, source := range c.SourcePaths {
				n++
				if _, err := os.Stat(filepath.Join(root, source)); err != nil {
					t.Errorf("COPY %s: %v", source, err)
				}
				if !strings.Contains(string(ignored), "\n!"+path.Clean(source)+"\n") {
					t.Errorf("COPY %s: .dockerignore keeps it out", source)
				}
			}
		}
		if len(commandsOf[*instructions.AddCommand](stage)) > 0 {
			t.Errorf("stage %s has an ADD; write COPY", stage.Name)
		}
		names[stage.Name] = true
	}
	if n == 0 {
		t.Error("nothing of the repository is copied")
	}
}

// What each stage takes from one before has been put there.
func TestDockerfileStages(t *testing.T) {
	stages, _ := dockerfile(t)
	var scripts string
	for _, stage := range stages {
		for _, run := range commandsOf[*instructions.RunCommand](stage) {
			scripts += strings.Join(run.CmdLine, " ") + "\n"
		}
	}
	programs := regexp.MustCompile(`\./cmd/([a-z-]+)`).FindAllStringSubmatch(scripts, -1)
	if len(programs) != 2 {
		t.Fatalf("programs that are built: %v", programs)
	}
	last := stages[len(stages)-1]
	var copied []string
	for _, c := range commandsOf[*instructions.CopyCommand](last) {
		copied = append(copied, c.SourcePaths...)
	}
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(root, "cmd", program[1], "main.go")); err != nil {
			t.Errorf("go build: %v", err)
		}
		if !slices.Contains(copied, "/usr/local/bin/"+program[1]) {
			t.Errorf("%s is built, but not in the image", program[1])
		}
	}
	for _, file := range copied {
		if !strings.HasSuffix(file, "/") && !strings.Contains(scripts, "setcap cap_net_bind_service=+ep "+file) {
			t.Errorf("%s has no capability, so that none of the programs it starts has any", file)
		}
	}
}

func TestDockerfileRuns(t *testing.T) {
	stages, args := dockerfile(t)
	last := stages[len(stages)-1]
	if last.BaseName != "haproxy:${HAPROXY_VERSION}" || args["HAPROXY_VERSION"] != "3.4" {
		t.Errorf("the image is made of %s with %v", last.BaseName, args)
	}
	module, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))[1]; args["GO_VERSION"] != version {
		t.Errorf("go.mod asks for Go %s, the image is built with %s", version, args["GO_VERSION"])
	}
	users := commandsOf[*instructions.UserCommand](last)
	if len(users) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(users[0].User) {
		t.Errorf("the user is no number above 0: %v", users)
	}
	entry, command := commandsOf[*instructions.EntrypointCommand](last), commandsOf[*instructions.CmdCommand](last)
	if len(entry) != 1 || len(command) != 1 || entry[0].PrependShell || command[0].PrependShell || !slices.Equal(entry[0].CmdLine, []string{"sluice-init", "sluice"}) {
		t.Fatalf("entry point %v, command %v", entry, command)
	}
	if out, code := program(t, "", append(slices.Clone(command[0].CmdLine), "--help")...); code != 0 {
		t.Errorf("sluice does not take its flags: %s", out)
	}
	labels := map[string]string{}
	for _, label := range commandsOf[*instructions.LabelCommand](last) {
		for _, pair := range label.Labels {
			labels[pair.Key] = pair.Value
		}
	}
	for _, name := range []string{"title", "description", "source", "licenses", "version"} {
		if labels["org.opencontainers.image."+name] == "" {
			t.Errorf("there is no label %s", name)
		}
	}
	// The values of the chart speak of the same user, folders and ports.
	values := valuesOf(t, chartDir+"/values.yaml")
	if user, _, _ := strings.Cut(users[0].User, ":"); user != text(values["runAsUser"]) {
		t.Errorf("the image's user is %s, the chart's %v", user, values["runAsUser"])
	}
	listen := values["listen"].(map[string]any)
	for _, port := range commandsOf[*instructions.ExposeCommand](last)[0].Ports {
		if !slices.Contains([]string{text(listen["http"]), text(listen["https"]), text(listen["health"]), text(listen["admin"])}, port) {
			t.Errorf("port %s is not the chart's", port)
		}
	}
}
