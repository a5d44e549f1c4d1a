/* SPDX-License-Identifier: Apache-2.0 */
#include "sw_internal.h"

void sw_constants_init(struct sw_constants *k)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c32 = i, c16 = i, ccitt = i << 8;
        for (int bit = 0; bit < 8; bit++) {
            c32 = c32 & 1 ? c32 >> 1 ^ 0xedb88320u : c32 >> 1;
            c16 = c16 & 1 ? c16 >> 1 ^ 0xa001u : c16 >> 1;
            ccitt = ccitt & 0x8000u ? ccitt << 1 ^ 0x1021u : ccitt << 1;
        }
        k->crc32[0][i] = c32;
        k->crc16[i] = (uint16_t)c16;
        k->crc_ccitt[i] = (uint16_t)ccitt;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (uint32_t j = 1; j < 8; j++)
            k->crc32[j][i] = k->crc32[j - 1][i] >> 8 ^ k->crc32[0][k->crc32[j - 1][i] & 0xff];
}
