// This file splits a program into its declarations. Each part has a few kernels and all declarations
// that these use, directly or through others. Programs that differ in other constants alone have the
// same part, which is compiled once. A part that lacks a declaration does not compile; then the whole
// program takes its place.
#include "parts.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

const char *const mark = "EMULATED_KERNEL";

const size_t most_kernels = 3; // the most kernels of a part, so that several processors share a file with many kernels

// A Declaration is the text of one declaration at the outermost level.
struct Declaration {
  std::string text, file, kernel; // kernel is the name of a kernel, or empty
  std::set<std::string> names;    // the names that it declares; an assertion declares none
  std::set<std::string> used;     // all identifiers in its text
  bool promise = false;           // It declares a function that is defined elsewhere.
};

bool of_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// after_string returns the position after the literal that begins at i.
size_t after_string(const std::string &s, size_t i) {
  char quote = s[i++];
  while (i < s.size() && s[i] != quote) i += s[i] == '\\' ? 2 : 1;
  return i + 1;
}

// A Word is an identifier in a declaration. depth counts the brackets around it, bodies the braces.
struct Word {
  std::string text;
  int depth, bodies;
  char next; // the character after it
};

std::vector<Word> words_of(const std::string &s) {
  std::vector<Word> out;
  int depth = 0, bodies = 0;
  for (size_t i = 0; i < s.size();) {
    char c = s[i];
    if (c == '#' && (i == 0 || s[i - 1] == '\n')) {
      i = std::min(s.find('\n', i), s.size());
    } else if (c == '"' || c == '\'') {
      i = after_string(s, i);
    } else if (of_word(c)) {
      size_t end = i;
      while (end < s.size() && of_word(s[end])) end++;
      size_t next = s.find_first_not_of(" \n", end);
      if (!isdigit((unsigned char)c)) out.push_back({s.substr(i, end - i), depth, bodies, next == std::string::npos ? '\0' : s[next]});
      i = end;
    } else {
      depth += (c == '(') - (c == ')'), bodies += (c == '{') - (c == '}');
      i++;
    }
  }
  return out;
}

// without_parameters removes the parameters of a template.
std::string without_parameters(const std::string &s) {
  size_t at = s.find("template <");
  if (at == std::string::npos) return s;
  int depth = 0;
  for (size_t i = at; i < s.size(); i++) {
    depth += (s[i] == '<') - (s[i] == '>');
    if (s[i] == '>' && depth == 0) return s.substr(0, at) + s.substr(i + 1);
  }
  return s;
}

// name finds the names that a declaration declares. A function's name precedes its bracket, and a type
// declares its name and its values. Any other declaration is taken to declare all of its words, which
// may be more than it does.
void name(Declaration &d) {
  for (auto &w : words_of(d.text)) d.used.insert(w.text);
  std::vector<Word> words = words_of(without_parameters(d.text));
  static const std::set<std::string> types = {"struct", "class", "union", "enum"};
  bool type = false, values = false;
  for (size_t i = 0; i < words.size(); i++) {
    const Word &w = words[i];
    if (w.text == "static_assert" && i == 0) return;
    if (w.depth == 0 && w.bodies == 0 && w.next == '(' && !type && w.text != "alignas" && w.text != "__attribute__") {
      d.names = {w.text};
      d.promise = d.text.find('{') == std::string::npos;
      if (d.used.count(mark)) d.kernel = w.text;
      return;
    }
    if (types.count(w.text) && w.bodies == 0) type = true, values = values || w.text == "enum";
    if (w.depth == 0 && (w.bodies == 0 || (values && w.bodies == 1))) d.names.insert(w.text);
  }
  for (auto &word : types) d.names.erase(word);
  for (auto &word : {"template", "typename", "const", "constexpr", "static", "inline", "extern", "int", "float", "bool"}) d.names.erase(word);
}

// declarations splits the files of a program into their declarations.
std::vector<Declaration> declarations(const std::string &s) {
  std::vector<Declaration> out;
  std::string file, text;
  int depth = 0, line = 1;
  bool function = false; // The open brace is that of a function's body.
  char last = ' ';
  size_t i = 0;
  auto end = [&] {
    Declaration d = {text, file};
    name(d);
    out.push_back(d), text.clear(), function = false;
  };
  while (i < s.size()) {
    char c = s[i];
    size_t from = i++;
    if (c == '#' && (from == 0 || s[from - 1] == '\n')) {
      i = std::min(s.find('\n', i), s.size() - 1) + 1;
      std::string all = s.substr(from, i - from);
      size_t open = all.find('"'), close = all.rfind('"');
      if (isdigit((unsigned char)all[2]) && open != close) line = atoi(&all[2]), file = all.substr(open + 1, close - open - 1);
      if (!text.empty()) text += all;
      continue;
    }
    if (c == '"' || c == '\'') i = after_string(s, from);
    if (text.empty() && isspace((unsigned char)c)) {
      line += c == '\n';
      continue;
    }
    if (text.empty()) text = "# " + std::to_string(line) + " \"" + file + "\"\n";
    text.append(s, from, i - from);
    line += c == '\n';
    if (c == '{' && depth == 0) function = last == ')';
    depth += (c == '(' || c == '{') - (c == ')' || c == '}');
    if (!isspace((unsigned char)c)) last = c;
    if (depth == 0 && (c == ';' || (c == '}' && function))) end();
  }
  if (!text.empty()) end();
  return out;
}

// entry registers a kernel by its name, with a function that calls it and the sizes of its parameters.
std::string entry(const std::string &name) {
  const std::string seen = "\nextern \"C\" __attribute__((visibility(\"default\"))) ";
  return seen + "void emulated_call_" + name + "(void **p) { emulated::apply(" + name + ", p); }" + seen + "int emulated_sizes_" + name +
         "(u32 *out) { return emulated::sizes(" + name + ", out); }\n";
}

// uses reports whether declaration last of all needs declaration i. A declaration cannot use a later
// one, except a function that it declares itself.
bool uses(const std::vector<Declaration> &all, size_t last, size_t i) {
  const Declaration &d = all[last], &other = all[i];
  if (d.promise && d.names == other.names) return true;
  if (i > last) return false;
  bool named = other.names.empty() && other.file == d.file; // Every part of a file has its assertions.
  for (auto &n : other.names) named = named || d.used.count(n);
  return named;
}

// part returns the base, some kernels, all declarations that these use, and the kernels' entries.
std::string part(const std::string &base, const std::vector<Declaration> &all, const std::vector<size_t> &kernels) {
  std::set<size_t> in(kernels.begin(), kernels.end());
  std::vector<size_t> next = kernels;
  auto need = [&](size_t i) {
    if (all[i].kernel.empty() && in.insert(i).second) next.push_back(i);
  };
  for (auto &d : declarations(base))
    for (size_t i = 0; d.promise && i < all.size(); i++)
      if (d.names == all[i].names) need(i);
  while (!next.empty()) {
    size_t last = next.back();
    next.pop_back();
    for (size_t i = 0; i < all.size(); i++)
      if (uses(all, last, i)) need(i);
  }
  std::string out = base, entries;
  for (size_t i : in) {
    out += all[i].text + "\n";
    if (!all[i].kernel.empty()) entries += entry(all[i].kernel);
  }
  return out + entries;
}

// launches is the code that runs a kernel, which is compiled once for all parts.
const char *const launches =
    "\nextern \"C\" __attribute__((visibility(\"default\"))) int emulated_launch(void (*call)(void **), const u32 *grid, const u32 *block, u32 bytes, "
    "u32 cluster, bool early, void **p) { return emulated::launch(call, grid, block, bytes, cluster, early, p); }\n";

// whole returns all kernels of a program as one part.
std::string whole(const std::string &text, const std::vector<Declaration> &all) {
  std::string entries;
  for (auto &d : all)
    if (!d.kernel.empty()) entries += entry(d.kernel);
  return text + entries;
}

} // namespace

std::vector<std::string> parts_of(const std::string &base, const std::string &runtime, const std::string &program) {
  std::vector<Declaration> all = declarations(program);
  std::map<std::string, std::vector<size_t>> kernels; // [file]
  std::vector<std::string> out = {base + runtime + launches, whole(base + program, all)};
  auto cut = [&](std::vector<size_t> &some) {
    out.push_back(part(base, all, some));
    some.clear();
  };
  for (size_t i = 0; i < all.size(); i++) {
    if (all[i].kernel.empty()) continue;
    std::vector<size_t> &some = kernels[all[i].file];
    some.push_back(i);
    if (some.size() == most_kernels) cut(some);
  }
  for (auto &k : kernels)
    if (!k.second.empty()) cut(k.second);
  return out;
}
