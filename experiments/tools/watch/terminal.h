// A block of lines at the end of a terminal's text, redrawn in place.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace ringside::tools::watch {

struct TerminalSize {
  int columns = 0, rows = 0;  // 0: the file is no terminal
  bool is_terminal() const { return columns > 0; }
};

/// The size of the terminal that the open file is; none if it is no terminal, or one that
/// `environment` ("NAME=value") calls dumb, which has no cursor that could move.
TerminalSize terminal_size(int file, const std::vector<std::string>& environment);

/// The text on one line of at most so many columns: what is too long ends with "...", and control
/// characters, which could move the cursor, become blanks.
std::string in_columns(const std::string& text, int columns);

/// The cursor stands on the line below the block, at its beginning, whenever nothing is being
/// drawn. So a program that ends at any moment leaves a block that can be read, and a clean line
/// for the next prompt.
class TerminalBlock {
 public:
  /// `size` is asked at every drawing: the user may resize the terminal.
  TerminalBlock(std::ostream& out, std::function<TerminalSize()> size)
      : out_(out), size_(std::move(size)) {}

  /// Draws `lines` in place of the block that is there. Lines must fit the terminal's columns.
  void draw(const std::vector<std::string>& lines);
  /// Erases the block.
  void leave();
  /// Erases the block, and prints whole or broken lines that stay where it was.
  void print(std::string_view text);

 private:
  /// The escape sequence that moves the cursor to the beginning of the block.
  std::string to_the_top() const;

  std::ostream& out_;
  std::function<TerminalSize()> size_;
  std::vector<int> drawn_;  // columns of the lines of the block that is there
  bool in_a_line_ = false;  // the text that was printed last has no line feed at its end
};

}  // namespace ringside::tools::watch
