/* The order of floating-point numbers (real.h).  Context: host. */
#include <math.h>
#include <string.h>

#include "real.h"

int64_t real_place(double value, uint32_t bits)
{
	float single = (float)value;
	int32_t low;
	int64_t high;

	if (bits == 32) {
		memcpy(&low, &single, sizeof(low));
		return low < 0 ? low ^ INT32_MAX : low;
	}
	memcpy(&high, &value, sizeof(high));
	return high < 0 ? high ^ INT64_MAX : high;
}

int64_t real_place_up_to(double value, uint32_t bits, bool below)
{
	double found = bits == 32 ? (double)(float)value : value;

	if (found > value || (below && found == value)) {
		if (isinf(found) && found < 0)
			return INT64_MIN;
		found = bits == 32 ? (double)nextafterf((float)found, -INFINITY) : nextafter(found, -INFINITY);
		return real_place(found, bits);
	}
	return real_place(found == 0 ? 0.0 : found, bits);
}
