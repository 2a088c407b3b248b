// This file implements NVRTC's functions by the host's C++ compiler. It replaces ptx.cuh and
// hopper.cuh in a program's text by device.h and hopper.h, and makes a shared library of it. The
// parts of a program are compiled in parallel and cached beside this library, because other programs
// have the same parts.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "parts.h"

namespace {

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
         " -std=c++17 -w -O2 -ftree-vectorize -fvisibility=hidden -fPIC -fno-strict-aliasing -fno-stack-protector -fno-exceptions -U_FORTIFY_SOURCE -I" + quoted(folder());
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

// compiled returns the object file of a part, or "" if the part does not compile.
std::string compiled(const std::string &part, const std::string &log) {
  const std::string dir = folder() + "/parts", path = dir + "/" + key(part) + ".o", system_header = folder() + "/system.h";
  mkdir(dir.c_str(), 0700);
  once(system_header + ".gch", [&](const std::string &to) { return run(compiler() + " -x c++-header " + quoted(system_header) + " -o " + to + " 2>/dev/null"); });
  bool done = once(path, [&](const std::string &to) {
    return write(path + ".cc", part) && run(compiler() + " -include system.h -DEMULATED_KERNEL= -c " + path + ".cc -o " + to + " 2>" + log) && unlink((path + ".cc").c_str()) == 0;
  });
  return done ? path : "";
}

// compiled_all returns the object files of parts, with "" for each part that does not compile.
std::vector<std::string> compiled_all(const std::vector<std::string> &parts, const std::string &log) {
  std::vector<std::string> objects(parts.size());
  std::atomic<size_t> next(0);
  std::vector<std::thread> some;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); i++)
    some.emplace_back([&] {
      for (size_t k; (k = next++) < parts.size();) objects[k] = compiled(parts[k], log + std::to_string(k));
    });
  for (auto &t : some) t.join();
  for (size_t k = 0; k < parts.size(); k++) unlink((log + std::to_string(k)).c_str());
  return objects;
}

// linked makes a shared library of objects. It fails if one is missing.
bool linked(const std::vector<std::string> &objects, const std::string &dir, const std::string &log) {
  std::string link = compiler() + " -shared -Wl,-z,defs -o " + dir + "/kernels.so";
  for (auto &o : objects) {
    if (o.empty()) return false;
    link += " " + o;
  }
  return run(link + " 2>" + log);
}

// build makes a shared library of a program. If a part does not compile, build compiles the whole
// program, whose compiler log then names the error.
bool build(const std::string &source, const std::string &defines, const std::string &dir) {
  const std::string device = "EMULATED_DEVICE", program = "EMULATED_PROGRAM", log = dir + "/log";
  if (!write(dir + "/kernels.cc", "#include \"system.h\"\n" + device + "\n#include \"device.h\"\n#include \"hopper.h\"\n" + program + "\n" + source)) return false;
  if (!run("cd " + dir + " && " + compiler() + defines + " -E kernels.cc -o kernels.ii 2>log")) return false; // The text then has no path of this folder.
  std::string text = read(dir + "/kernels.ii");
  text = text.substr(text.find(device + "\n") + device.size() + 1);
  size_t begin = text.find(program + "\n");
  text.erase(begin, program.size() + 1);
  return linked(compiled_all(parts_of(text, begin), log), dir, log) || linked({compiled(whole(text, begin), log)}, dir, log);
}

} // namespace

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
  bool done = build(without(without(p->source, "ptx.cuh"), "hopper.cuh"), defines, dir);
  p->log = read(dir + "/log");
  std::string library = read(dir + "/kernels.so");
  uint64_t size = library.size();
  p->code = "EMULATED" + std::string((const char *)&size, 8) + library;
  for (auto &f : {"/kernels.cc", "/kernels.ii", "/kernels.so", "/log"}) unlink((dir + f).c_str());
  rmdir(dir.c_str());
  return done ? 0 : 6;
}

int nvrtcGetProgramLogSize(Program *p, uint64_t *n) { return *n = p->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program *p, char *s) { return memcpy(s, p->log.c_str(), p->log.size() + 1), 0; }
int nvrtcGetCUBINSize(Program *p, uint64_t *n) { return *n = p->code.size(), 0; }
int nvrtcGetCUBIN(Program *p, char *s) { return memcpy(s, p->code.data(), p->code.size()), 0; }

} // extern "C"
