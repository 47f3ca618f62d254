/** A Jakarta Servlet filter that opens and seals around ordinary servlets. */
package dev.sealway.servlet;
