// The smallest test harness that does: tests are named by sentences, a failed check ends its test.
#ifndef MONOPATH_TESTS_CHECK_H_
#define MONOPATH_TESTS_CHECK_H_

#include <exception>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace monopath::tests {

struct Test {
  std::string name;
  std::function<void()> body;
};

// A check that did not hold.
class Failed : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <typename Found, typename Expected>
void check_equal(const Found& found, const Expected& expected, const char* what, int line) {
  if (found == expected) return;
  std::ostringstream text;
  text << "line " << line << ": Expected " << what << " to be " << expected << ", got " << found;
  throw Failed(text.str());
}

inline void check_true(bool held, const char* what, int line) {
  if (!held) throw Failed("line " + std::to_string(line) + ": Expected " + what);
}

// Returns the exception of type `Thrown` that `body` throws.
template <typename Thrown, typename Body>
Thrown thrown_by(Body&& body) {
  try {
    body();
  } catch (const Thrown& thrown) {
    return thrown;
  }
  throw Failed("Expected an exception, got none");
}

// Runs all tests and returns the exit status.
inline int run_all(const std::vector<Test>& tests) {
  int failed_count = 0;
  for (const Test& test : tests) {
    try {
      test.body();
      std::cout << "ok      " << test.name << std::endl;
    } catch (const std::exception& error) {
      ++failed_count;
      std::cout << "FAILED  " << test.name << "\n        " << error.what() << std::endl;
    }
  }
  return failed_count == 0 ? 0 : 1;
}

}  // namespace monopath::tests

#define CHECK(held) ::monopath::tests::check_true((held), #held, __LINE__)
#define CHECK_EQUAL(found, expected) ::monopath::tests::check_equal((found), (expected), #found, __LINE__)

#endif  // MONOPATH_TESTS_CHECK_H_
