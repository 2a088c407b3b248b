// This file implements NVRTC's functions by the host's C++ compiler. It replaces ptx.cuh and
// hopper.cuh in a program's text by device.h and hopper.h, and makes shared libraries of its parts,
// each when a kernel of it is launched first. They are cached beside this library, because other
// programs have the same parts.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "driver.h"
#include "parts.h"

namespace {

const std::string part_options = " -include system.h -DEMULATED_KERNEL=";

struct Program {
  std::string source, log, code;
};

std::string folder() {
  Dl_info info;
  dladdr((void *)&folder, &info);
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

std::string read(const std::string &path) {
  std::string out;
  if (FILE *f = fopen(path.c_str(), "rb")) {
    char buf[65536];
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) out.append(buf, n);
    fclose(f);
  }
  return out;
}

bool write(const std::string &path, const std::string &text) {
  FILE *f = fopen(path.c_str(), "wb");
  if (!f) return false;
  bool whole = fwrite(text.data(), 1, text.size(), f) == text.size();
  return fclose(f) == 0 && whole;
}

// without removes one file from the text of a program.
std::string without(const std::string &s, const std::string &file) {
  const std::string line = "#line 1 \"";
  size_t begin = s.find(line + file + "\"");
  if (begin == std::string::npos) return s;
  size_t end = s.find(line, begin + line.size());
  return s.substr(0, begin) + (end == std::string::npos ? "" : s.substr(end));
}

std::string quoted(const std::string &s) {
  std::string out = "'";
  for (char c : s) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

bool run(const std::string &command) { return system(command.c_str()) == 0; }

// A program exports only the functions that call its kernels. If it exported the static shared memory
// of templates, the loader would resolve it to another loaded module, and lose it when that module is
// unloaded.
std::string compiler() {
  const char *cxx = getenv("CXX");
  return std::string(cxx ? cxx : "g++") +
         " -std=c++17 -w -O1 -fvisibility=hidden -fPIC -fno-strict-aliasing -fno-stack-protector -fno-exceptions -U_FORTIFY_SOURCE -I" + quoted(folder());
}

// once makes a file unless it exists. The first process that asks calls make, which writes the file to
// the path that it is given.
template <class F>
bool once(const std::string &path, F make) {
  if (access(path.c_str(), R_OK) == 0) return true;
  int lock = open((path + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock < 0) return false;
  flock(lock, LOCK_EX);
  std::string fresh = path + ".new" + std::to_string(getpid());
  bool done = access(path.c_str(), R_OK) == 0 || (make(fresh) && rename(fresh.c_str(), path.c_str()) == 0);
  if (!done) unlink(fresh.c_str());
  close(lock);
  return done;
}

// key returns a file name for a text, by its hash.
std::string key(const std::string &s) {
  uint64_t sums[2] = {0xcbf29ce484222325, 0x9e3779b97f4a7c15};
  for (unsigned char c : s)
    for (auto &sum : sums) sum = (sum ^ c) * (&sum == sums ? 0x100000001b3 : 0xd6e8feb86659fd93);
  char out[33];
  snprintf(out, sizeof out, "%016llx%016llx", (unsigned long long)sums[0], (unsigned long long)sums[1]);
  return out;
}

std::string part_path(const std::string &key) { return folder() + "/parts/" + key; }

// stored stores the text of a part under its key.
bool stored(const std::string &part) {
  return once(part_path(key(part)) + ".cc", [&](const std::string &to) { return write(to, part); });
}

// checked reports whether a program has no errors.
bool checked(const std::string &program, const std::string &log) {
  const std::string system_header = folder() + "/system.h", path = part_path(key(program));
  once(system_header + ".gch", [&](const std::string &to) { return run(compiler() + " -x c++-header " + quoted(system_header) + " -o " + to + " 2>/dev/null"); });
  return once(path + ".ok", [&](const std::string &to) { return run(compiler() + part_options + " -fsyntax-only -x c++ " + path + ".cc 2>" + log) && write(to, ""); });
}

// listing returns the code of a program, which is a line for each part: its key and its kernels.
std::string listing(const std::vector<std::string> &parts) {
  const std::string call = " emulated_call_";
  std::string out;
  for (auto &p : parts) {
    out += key(p);
    for (size_t i = 0; (i = p.find(call, i)) != std::string::npos;) {
      i += call.size();
      out += " " + p.substr(i, p.find('(', i) - i);
    }
    out += "\n";
  }
  return out;
}

// build makes the code of a program. It only looks for errors: to generate code takes several times as
// long, and most programs have kernels that no test launches.
bool build(const std::string &source, const std::string &defines, const std::string &dir, std::string &code) {
  const std::string log = dir + "/log", runtime = "EMULATED_RUNTIME\n", program = "EMULATED_PROGRAM\n", device = "EMULATED_DEVICE\n";
  if (!write(dir + "/kernels.cc", "#include \"system.h\"\n" + device + "#pragma GCC visibility push(hidden)\n#include \"device.h\"\n#include \"hopper.h\"\n" +
                                      runtime + "#include \"runtime.h\"\n" + program + source))
    return false;
  if (!run("cd " + dir + " && " + compiler() + defines + " -E kernels.cc -o kernels.ii 2>log")) return false; // The text then has no path of this folder.
  const std::string text = read(dir + "/kernels.ii");
  auto between = [&](const std::string &mark, const std::string &next) {
    size_t begin = text.find(mark) + mark.size();
    return text.substr(begin, next.empty() ? next.npos : text.find(next) - begin);
  };
  mkdir(part_path("").c_str(), 0700);
  const std::vector<std::string> parts = parts_of(between(device, runtime), between(runtime, program), between(program, ""));
  for (auto &p : parts)
    if (!stored(p)) return false;
  if (!checked(parts[1], log)) return false;
  code = listing(parts);
  return true;
}

} // namespace

bool emulated_known(const std::string &part) { return access((part_path(part) + ".cc").c_str(), R_OK) == 0; }

// emulated_library compiles a part, and at its first call what runs threads, which takes most of the time
// of a test and does not change: the processor's own instructions and -O3 are worth their time there,
// where -O1 is enough for the kernels. GCC 12 fails with system.h compiled before at another -O, so another
// header comes first.
std::string emulated_library(const std::string &launcher, const std::string &part) {
  const std::string object = part_path(launcher) + ".o", path = part_path(part) + ".so";
  auto compile = [](const std::string &key, const std::string &how, const std::string &to) { return run(compiler() + how + part_options + " -x c++ " + part_path(key) + ".cc -o " + to + " 2>/dev/null"); };
  bool done = once(object, [&](const std::string &to) { return compile(launcher, " -O3 -march=native -ffp-contract=off -c -include cstdint", to); }) &&
              once(path, [&](const std::string &to) { return compile(part, " -shared -Wl,-z,defs " + object, to); });
  return done ? read(path) : "";
}

extern "C" {

const char *nvrtcGetErrorString(int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_EMULATED"; }
int nvrtcVersion(int *major, int *minor) { return *major = 0, *minor = EMULATED_VERSION, 0; }
int nvrtcCreateProgram(Program **p, const char *source, const char *, int, void *, void *) { return *p = new Program{source, "", ""}, 0; }
int nvrtcDestroyProgram(Program **p) { return delete *p, 0; }

int nvrtcCompileProgram(Program *p, int n, const char **options) {
  const char *tmp = getenv("TMPDIR");
  std::string dir = std::string(tmp ? tmp : "/tmp") + "/emulated-XXXXXX", defines;
  if (!mkdtemp(&dir[0])) return 7;
  for (int i = 0; i < n; i++)
    if (strncmp(options[i], "-D", 2) == 0) defines += " " + quoted(options[i]);
  bool done = build(without(without(p->source, "ptx.cuh"), "hopper.cuh"), defines, dir, p->code);
  p->log = read(dir + "/log");
  uint64_t size = p->code.size();
  p->code = "EMULATED" + std::string((const char *)&size, 8) + p->code;
  for (auto &f : {"/kernels.cc", "/kernels.ii", "/log"}) unlink((dir + f).c_str());
  rmdir(dir.c_str());
  return done ? 0 : 6;
}

int nvrtcGetProgramLogSize(Program *p, uint64_t *n) { return *n = p->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program *p, char *s) { return memcpy(s, p->log.c_str(), p->log.size() + 1), 0; }
int nvrtcGetCUBINSize(Program *p, uint64_t *n) { return *n = p->code.size(), 0; }
int nvrtcGetCUBIN(Program *p, char *s) { return memcpy(s, p->code.data(), p->code.size()), 0; }

} // extern "C"
