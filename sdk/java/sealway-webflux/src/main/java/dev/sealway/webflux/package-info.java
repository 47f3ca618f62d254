/** A filter for {@code WebClient} and a {@code WebFilter}, on Reactor. */
package dev.sealway.webflux;
