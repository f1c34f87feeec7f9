/* A text that is being typed; see edit.h.  Context: host. */
#include <string.h>

#include "edit.h"
#include "terminal.h"

enum edit_state edit_key(char *text, size_t size, int key)
{
	size_t length = strlen(text);

	if (key == TERMINAL_KEY_ENTER)
		return EDIT_TAKEN;
	if (key == TERMINAL_KEY_ESCAPE || key == 3)
		return EDIT_LEFT;
	if (key == TERMINAL_KEY_BACKSPACE) {
		/* A character may have several bytes. */
		while (length && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
			length--;
		text[length ? length - 1 : 0] = '\0';
	} else if (key >= ' ' && key < 256 && key != 127 && length + 1 < size) {
		text[length] = (char)key;
		text[length + 1] = '\0';
	}
	return EDIT_GOES_ON;
}
